opforge_operator(elementwise.scale)
