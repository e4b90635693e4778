// Workspace for calls that bring none. It belongs to {device, stream}: what is queued on one stream
// may use the same memory one after another. On the host, where a call ends before it returns, it
// belongs to the thread.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/launcher.hpp"

namespace opforge {

class WorkspacePool {
 public:
  // Memory for one call; goes back when it goes out of scope. Two leases never share memory, so
  // that threads that use one stream do not launch into each other's partial results.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { give_back(); }
    void* data() const { return data_; }

   private:
    friend class WorkspacePool;
    void give_back();
    WorkspacePool* pool_ = nullptr;
    DeviceApi* api_ = nullptr;
    Device device_;
    StreamHandle stream_ = nullptr;
    std::uint64_t stream_id_ = 0;
    void* base_ = nullptr;
    std::size_t size_bytes_ = 0;
    void* data_ = nullptr;
    bool thread_own_ = false;
  };

  ~WorkspacePool();
  // Memory of `bytes` whose address has no bit of `align_mask`. Never called for a stream that is
  // being captured.
  Result<Lease> lease(DeviceApi& api, Device device, StreamHandle stream, std::uint64_t stream_id,
                      std::size_t bytes, std::uintptr_t align_mask);

 private:
  static constexpr std::size_t kFreeKept = 64;  // buffers at rest; the longest unused go
  using Key = std::tuple<DeviceKind, int, std::uint64_t>;
  struct Buffer {
    Key key;
    DeviceApi* api;
    StreamHandle stream;
    void* base;
    std::size_t size_bytes;
  };
  void put_back(Buffer buffer);
  std::mutex mutex_;
  std::vector<Buffer> free_;  // oldest first
};

}  // namespace opforge
