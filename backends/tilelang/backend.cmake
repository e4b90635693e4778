# TileLang: kernels in Python, lowered to CUDA C++ by a worker process and compiled by nvcc. Cubins run through the CUDA launcher.
opforge_backend(tilelang LANGUAGE tile DEVICE cuda TOOLCHAIN toolchain.cc record.cc LINK opforge_deps_fmt nlohmann_json::nlohmann_json)
