opforge_operator(elementwise.copy)
