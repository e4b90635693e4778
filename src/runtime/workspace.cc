#include "runtime/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace opforge {
namespace {

// The thread's own host memory: grows, and is freed with the thread. Not from a device's allocator,
// so that it may go after everything else.
struct ThreadMemory {
  void* base = nullptr;
  std::size_t size_bytes = 0;
  bool leased = false;
  ThreadMemory() = default;
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;
  ~ThreadMemory() { release(); }
  void release() {
    std::free(base);
    base = nullptr;
    size_bytes = 0;
  }
};

ThreadMemory& thread_memory() {
  thread_local ThreadMemory memory;
  return memory;
}

void* aligned(void* base, std::uintptr_t align_mask) {
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(base) + align_mask) &
                                 ~align_mask);
}

}  // namespace

WorkspacePool::Lease& WorkspacePool::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  pool_ = std::exchange(other.pool_, nullptr);
  api_ = other.api_;
  device_ = other.device_;
  stream_ = other.stream_;
  stream_id_ = other.stream_id_;
  base_ = std::exchange(other.base_, nullptr);
  size_bytes_ = other.size_bytes_;
  data_ = std::exchange(other.data_, nullptr);
  thread_own_ = other.thread_own_;
  return *this;
}

void WorkspacePool::Lease::give_back() {
  if (pool_ == nullptr || base_ == nullptr) return;
  if (thread_own_) {
    thread_memory().leased = false;
  } else {
    pool_->put_back(
        {Key{device_.kind, device_.ordinal, stream_id_}, api_, stream_, base_, size_bytes_});
  }
  base_ = nullptr;
}

WorkspacePool::~WorkspacePool() {
  for (const Buffer& buffer : free_)
    buffer.api->release(std::get<1>(buffer.key), buffer.base, buffer.stream);
}

Result<WorkspacePool::Lease> WorkspacePool::lease(DeviceApi& api, Device device,
                                                  StreamHandle stream, std::uint64_t stream_id,
                                                  std::size_t bytes, std::uintptr_t align_mask) {
  Lease lease;
  lease.pool_ = this;
  lease.api_ = &api;
  lease.device_ = device;
  lease.stream_ = stream;
  lease.stream_id_ = stream_id;
  if (bytes + align_mask < bytes) {
    return fail(Code::kOutOfMemory, fmt::format("no workspace of {} bytes", bytes),
                "runtime/workspace");
  }
  const std::size_t wanted = bytes + align_mask;
  ThreadMemory& own = thread_memory();
  lease.thread_own_ = device.kind == DeviceKind::kCpu && !own.leased;
  if (lease.thread_own_) {
    if (own.size_bytes < wanted) {
      own.release();
      own.base = std::malloc(wanted);
      if (own.base == nullptr) {
        return fail(Code::kOutOfMemory, fmt::format("no workspace of {} bytes", bytes),
                    "runtime/workspace");
      }
      own.size_bytes = wanted;
    }
    own.leased = true;
    lease.base_ = own.base;
    lease.size_bytes_ = own.size_bytes;
    lease.data_ = aligned(own.base, align_mask);
    return lease;
  }
  const Key key{device.kind, device.ordinal, stream_id};
  {
    std::lock_guard lock(mutex_);
    // The newest that is large enough: its memory is the likeliest to be warm.
    const auto found = std::find_if(free_.rbegin(), free_.rend(), [&](const Buffer& buffer) {
      return buffer.key == key && buffer.size_bytes >= wanted;
    });
    if (found != free_.rend()) {
      lease.base_ = found->base;
      lease.size_bytes_ = found->size_bytes;
      free_.erase(std::next(found).base());
    }
  }
  if (lease.base_ == nullptr) {
    OPFORGE_ASSIGN(lease.base_, api.allocate(device.ordinal, wanted, stream));
    lease.size_bytes_ = wanted;
  }
  lease.data_ = aligned(lease.base_, align_mask);
  return lease;
}

void WorkspacePool::put_back(Buffer buffer) {
  std::vector<Buffer> dropped;
  {
    std::lock_guard lock(mutex_);
    // A smaller one of the same stream has served its time.
    const auto smaller = std::find_if(free_.begin(), free_.end(), [&](const Buffer& other) {
      return other.key == buffer.key && other.size_bytes < buffer.size_bytes;
    });
    if (smaller != free_.end()) {
      dropped.push_back(*smaller);
      free_.erase(smaller);
    }
    free_.push_back(std::move(buffer));
    if (free_.size() > kFreeKept) {
      dropped.push_back(free_.front());
      free_.erase(free_.begin());
    }
  }
  for (const Buffer& old : dropped) old.api->release(std::get<1>(old.key), old.base, old.stream);
}

}  // namespace opforge
