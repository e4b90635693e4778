opforge_operator(activation.relu)
