// The stand-in driver from C++ tests: makes OPFORGE_LIBCUDA name it, and reaches its control
// functions.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "standin/standin.h"

namespace opforge::test {

inline std::string standin_path() {
  return std::string(OPFORGE_BINARY_DIR) + "/standin/libcuda.so.1";
}

// Control functions, found by name in the library that the driver search opens too (one path is one
// library in a process).
class Standin {
 public:
  // Points OPFORGE_LIBCUDA at the stand-in and resets it. Throws when it was not built.
  static Standin& get() {
    static Standin standin;
    return standin;
  }

#define OPFORGE_STANDIN(member, name) decltype(&::name) member = find<decltype(&::name)>(#name)
  OPFORGE_STANDIN(reset, standin_reset);
  OPFORGE_STANDIN(set_devices, standin_set_devices);
  OPFORGE_STANDIN(set_driver_version, standin_set_driver_version);
  OPFORGE_STANDIN(set_attribute, standin_set_attribute);
  OPFORGE_STANDIN(set_memory, standin_set_memory);
  OPFORGE_STANDIN(fail, standin_fail);
  OPFORGE_STANDIN(set_sticky, standin_set_sticky);
  OPFORGE_STANDIN(calls, standin_calls);
  OPFORGE_STANDIN(images, standin_images);
  OPFORGE_STANDIN(jit_count, standin_jit_count);
  OPFORGE_STANDIN(memory_used, standin_memory_used);
  OPFORGE_STANDIN(current_device, standin_current_device);
  OPFORGE_STANDIN(launch_count, standin_launch_count);
  OPFORGE_STANDIN(memset_count, standin_memset_count);
  OPFORGE_STANDIN(map_count, standin_map_count);
#undef OPFORGE_STANDIN

  std::vector<StandinLaunch> launches() {
    return all<StandinLaunch>("standin_get_launch", launch_count());
  }
  std::vector<StandinMemset> memsets() {
    return all<StandinMemset>("standin_get_memset", memset_count());
  }
  std::vector<StandinMap> maps() { return all<StandinMap>("standin_get_map", map_count()); }

 private:
  Standin() {
    ::setenv("OPFORGE_LIBCUDA", standin_path().c_str(), 1);
    reset();
  }
  template <class F>
  F find(const char* name) {
    if (handle_ == nullptr) handle_ = ::dlopen(standin_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    void* symbol = handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
    if (symbol == nullptr)
      throw std::runtime_error(std::string("the stand-in driver is not built: ") + name);
    return reinterpret_cast<F>(symbol);
  }
  template <class T>
  std::vector<T> all(const char* name, int count) {
    std::vector<T> records(static_cast<std::size_t>(count));
    const auto get = find<int (*)(int, T*)>(name);
    for (int i = 0; i < count; ++i) get(i, &records[static_cast<std::size_t>(i)]);
    return records;
  }
  inline static void* handle_ = nullptr;
};

}  // namespace opforge::test
