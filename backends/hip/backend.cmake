# HIP: says what it misses. Triton kernels for gfx* are built by backends/triton without ROCm.
opforge_backend(hip TOOLCHAIN toolchain.cc)
