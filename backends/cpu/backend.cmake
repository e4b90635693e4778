opforge_backend(cpu LANGUAGE thread DEVICE cpu LAUNCHER launcher.cc loader.cc timer.cc TOOLCHAIN toolchain.cc LINK TBB::tbb)
