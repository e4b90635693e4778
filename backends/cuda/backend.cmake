# CUDA: cubins and PTX through the driver, CUDA C++ through NVRTC. Both are opened at run time; no toolkit is needed to build.
opforge_backend(cuda
  LANGUAGE thread DEVICE cuda
  LAUNCHER driver.cc device.cc launcher.cc nvml.cc timer.cc
  TOOLCHAIN nvrtc.cc toolchain.cc
  LINK opforge_deps_fmt)
target_link_libraries(opforge_toolchain_cuda PUBLIC opforge_launcher_cuda)
