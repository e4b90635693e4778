opforge_operator(norm.rms_norm)
