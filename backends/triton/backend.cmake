# Triton: kernels in Python to cubins (sm_*) and code objects (gfx*), by a worker process. Cubins run through the CUDA launcher.
opforge_backend(triton LANGUAGE tile DEVICE cuda TOOLCHAIN toolchain.cc record.cc LINK opforge_deps_fmt nlohmann_json::nlohmann_json)
