# OpenCL C through the ICD loader, which is opened at run time: only its headers are needed to build.
find_path(OPFORGE_OPENCL_HEADERS CL/cl.h REQUIRED)
opforge_backend(opencl
  LANGUAGE tile DEVICE opencl
  LAUNCHER icd.cc device.cc binary.cc program.cc launcher.cc timer.cc
  TOOLCHAIN source.cc toolchain.cc
  LINK opforge_deps_fmt)
target_include_directories(opforge_launcher_opencl PUBLIC ${OPFORGE_OPENCL_HEADERS})
target_link_libraries(opforge_launcher_opencl PUBLIC nlohmann_json::nlohmann_json)
target_link_libraries(opforge_toolchain_opencl PUBLIC opforge_launcher_opencl)
