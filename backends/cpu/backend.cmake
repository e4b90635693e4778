opforge_backend(cpu LAUNCHER launcher.cc loader.cc LINK TBB::tbb)
