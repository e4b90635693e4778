// CUDA C++ kernels to cubins (sm_*) and PTX (compute_*) through NVRTC. Needs no GPU and no host
// compiler.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "backends/cuda/nvrtc.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge::cu {

// The translation unit of a variant: the kernel's source, struct V, and one extern "C" __global__
// function for each entry, with __launch_bounds__ where the block follows from the variant alone.
struct GeneratedUnit {
  std::string text;
  std::map<std::string, std::string> symbols;  // entry -> symbol
  std::map<std::string, std::vector<std::uint32_t>>
      param_sizes;  // symbol -> size of each parameter
};
Result<GeneratedUnit> generate_unit(const CompileRequest& request);

class CudaToolchain : public Toolchain {
 public:
  // Looks in `nvrtc_places()` on first use.
  CudaToolchain() = default;
  explicit CudaToolchain(NvrtcPlaces places) : places_(std::move(places)), fixed_places_(true) {}

  std::string_view backend() const override { return "cuda"; }
  bool serves(const Target& target) const override;
  Support available() override;
  Result<ToolchainStamp> stamp() override;
  Status fingerprint(const CompileRequest& request, Fingerprint& into) override;
  Result<Compiled> compile(const CompileRequest& request) override;

 private:
  Result<const Nvrtc*> nvrtc();
  // Every file that the unit may include: the kernel's closed set, the backend's header, the
  // toolkit's headers if used.
  Result<std::vector<std::pair<std::string, std::string>>> headers(const CompileRequest& request);

  NvrtcPlaces places_;
  bool fixed_places_ = false;
  std::mutex mutex_;
  std::unique_ptr<Nvrtc> nvrtc_;
};

}  // namespace opforge::cu
