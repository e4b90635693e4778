opforge_backend(cpu LAUNCHER launcher.cc loader.cc TOOLCHAIN toolchain.cc LINK TBB::tbb)
