opforge_operator(linear.gemm)
