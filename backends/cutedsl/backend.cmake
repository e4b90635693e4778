# CuTe DSL: kernels in Python to cubins, by a worker process. Cubins run through the CUDA launcher; no runtime library is needed.
opforge_backend(cutedsl LANGUAGE tile DEVICE cuda TOOLCHAIN toolchain.cc record.cc LINK opforge_deps_fmt nlohmann_json::nlohmann_json)
