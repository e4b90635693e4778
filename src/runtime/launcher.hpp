// The roles of a backend that production needs: devices, and launching code of one kind. A backend
// folder implements them and exports one function (see runtime/backends.hpp). Interfaces of at most
// 8 functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.hpp"
#include "runtime/timer.hpp"
#include "target/target.hpp"

namespace opforge {

// StreamHandle (runtime/timer.hpp): CUstream for CUDA; null elsewhere.

// Devices of one kind, their memory, and their streams. All functions are thread-safe; the caller's
// current device is unchanged afterwards.
class DeviceApi {
 public:
  virtual ~DeviceApi() = default;
  // Yes, or why no device of this kind can be used here (and what was tried).
  virtual Support available() = 0;
  virtual std::vector<DeviceInfo> devices() = 0;  // empty when not available; never fails
  virtual Result<void*> allocate(int ordinal, std::size_t bytes, StreamHandle stream) = 0;
  virtual void release(int ordinal, void* memory,
                       StreamHandle stream) = 0;  // after the work that is queued on `stream`
  // Either side may be host memory. Waits until it is done.
  virtual Status copy(int ordinal, void* to, const void* from, std::size_t bytes) = 0;
  virtual Status synchronize(int ordinal, StreamHandle stream) = 0;
  // Is this stream being captured into a graph, and an id that is the same for the same stream
  // (workspace belongs to it).
  struct StreamState {
    bool capturing = false;
    std::uint64_t id = 0;
  };
  virtual Result<StreamState> stream_state(int ordinal, StreamHandle stream) = 0;
  // What measuring needs (lives as long as this); null: time is then taken by the host's clock
  // round synchronize().
  virtual Timer* timer() { return nullptr; }
};

// Code that is loaded and resolved; kept alive by the plans that use it.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
};

// Everything about one step that is constant for a plan: evaluated launch values and the constant
// argument block.
struct PreparedStep {
  StepKind kind = StepKind::kKernel;
  void* function = nullptr;  // filled by Launcher::resolve
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t cluster[3] = {0, 0, 0};  // zeros: none
  std::uint32_t shared_bytes = 0;
  bool cooperative = false, programmatic = false;
  std::int64_t items = 0, grain = 1;  // CPU: work items, least items per call
  // Argument block: parameter i lies at param_offsets[i] (natural alignment, every parameter at
  // least 8-byte aligned and padded to 8; tensor maps 64-byte aligned). Pointers are patched per
  // call from `pointers`.
  std::vector<std::uint32_t> param_offsets;
  std::vector<std::uint32_t> param_sizes;
  std::vector<std::byte> arguments;
  struct PointerPatch {
    std::uint32_t offset_bytes;  // where in `arguments`
    std::int32_t tensor;         // index in the signature; -1: workspace
    std::int64_t add_bytes;
  };
  std::vector<PointerPatch> pointers;
  struct MapPatch {  // a TMA descriptor to encode when its base pointer changes
    std::uint32_t offset_bytes;
    std::int32_t tensor;
    std::int64_t add_bytes;
    DType element;
    std::vector<std::uint64_t> dims, strides_bytes;
    std::vector<std::uint32_t> box, element_strides;
    int interleave, swizzle, l2_promotion, oob_fill;
  };
  std::vector<MapPatch> maps;
  std::int32_t memset_tensor = -1;
  std::int64_t memset_add_bytes = 0, memset_bytes = 0;
  std::uint8_t memset_value = 0;
};

// Runs artifacts of one backend's code kinds on its device kind.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda"
  virtual DeviceKind device_kind() const = 0;
  virtual bool accepts(CodeKind kind) const = 0;
  virtual DeviceApi& device_api() = 0;
  // For people, one line each: what was found and where it was looked for. Shown by `opforge
  // doctor`.
  virtual std::vector<std::string> details() { return {}; }
  // Load code for a device. kIncompatible (architecture, driver), kCorrupt, kOutOfMemory, kDriver.
  // PTX only if `allow_ptx`.
  virtual Result<std::shared_ptr<LoadedCode>> load(const Artifact& artifact,
                                                   const std::string& code, int ordinal,
                                                   bool allow_ptx) = 0;
  // Find the symbol, set attributes (shared memory limit), check the parameter table against the
  // step.
  virtual Status resolve(LoadedCode& code, const std::string& symbol, int ordinal,
                         PreparedStep& step) = 0;
  // The hot path: no lock, no allocation, no environment read. `tensors` holds data pointers by
  // signature index.
  virtual Status launch(const PreparedStep& step, void* const* tensors, void* workspace,
                        int ordinal, StreamHandle stream) = 0;
};

}  // namespace opforge
