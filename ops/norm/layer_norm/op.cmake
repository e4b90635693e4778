opforge_operator(norm.layer_norm)
