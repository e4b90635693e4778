// A CUDA launcher over the stand-in driver, one for each test, so that no test sees another's
// settings.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/launcher.hpp"
#include "standin/fake_cubin.hpp"
#include "standin/standin.hpp"

namespace opforge::test {

class CudaTest : public ::testing::Test {
 protected:
  CudaTest() { standin.reset(); }
  ~CudaTest() override { standin.reset(); }

  // The driver is opened on first use, so settings made before it count.
  cu::CudaDeviceApi& devices() {
    if (devices_ == nullptr) {
      devices_ = std::make_unique<cu::CudaDeviceApi>([this]() -> Result<const cu::Driver*> {
        driver_ = cu::load_driver(std::vector<std::string>{standin_path()});
        if (!driver_) return fail(driver_.error());
        return &*driver_;
      });
      launcher_ = std::make_unique<cu::CudaLauncher>(*devices_);
    }
    return *devices_;
  }
  cu::CudaLauncher& launcher() {
    devices();
    return *launcher_;
  }
  // For tests of older drivers: take entry points away after it was opened.
  cu::Driver& driver() {
    (void)devices().available();
    return *driver_;
  }

  static Artifact artifact(const std::string& target = "sm_90a", CodeKind kind = CodeKind::kCubin) {
    Artifact a;
    a.variant.op = "test.add";
    a.variant.kernel = "add.cuda";
    a.variant.backend = "cuda";
    a.variant.target = target;
    a.kind = kind;
    a.min_driver = 13000;
    a.toolchain = {"nvrtc", "13.0", {}};
    return a;
  }
  // A step with a pointer, an i32 and an f32: tensor 0, 7, 1.5.
  static PreparedStep step() {
    PreparedStep s;
    s.grid[0] = 3;
    s.block[0] = 128;
    s.param_offsets = {0, 8, 16};
    s.param_sizes = {8, 4, 4};
    s.arguments.resize(24);
    const std::int32_t seven = 7;
    const float half = 1.5f;
    std::memcpy(s.arguments.data() + 8, &seven, 4);
    std::memcpy(s.arguments.data() + 16, &half, 4);
    s.pointers = {{0, 0, 0}};
    return s;
  }
  static std::string cubin(FakeKernel kernel = {"add", {8, 4, 4}}, int arch = 90) {
    return fake_cubin(arch, {kernel});
  }

  std::shared_ptr<LoadedCode> load(const std::string& code, int ordinal = 0) {
    auto loaded = launcher().load(artifact(), code, ordinal, false);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? *loaded : nullptr;
  }

  Standin& standin = Standin::get();

 private:
  Result<cu::Driver> driver_ = cu::Driver{};
  std::unique_ptr<cu::CudaDeviceApi> devices_;
  std::unique_ptr<cu::CudaLauncher> launcher_;
};

inline bool mentions(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) == std::string::npos) {
      ADD_FAILURE() << "'" << part << "' is not in: " << text;
      return false;
    }
  }
  return true;
}

}  // namespace opforge::test
