# cuTile: kernels in Python to tile bytecode, by a worker process, and to cubins by its assembler. They run through the CUDA launcher.
opforge_backend(cutile LANGUAGE tile DEVICE cuda TOOLCHAIN toolchain.cc record.cc LINK opforge_deps_fmt nlohmann_json::nlohmann_json)
