opforge_backend(reference TOOLCHAIN toolchain.cc)
