# MetaX: says what it misses.
opforge_backend(metax TOOLCHAIN toolchain.cc)
