opforge_operator(reduction.softmax)
