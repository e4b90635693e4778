opforge_operator(activation.gelu)
