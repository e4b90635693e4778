// The copy ceiling of a device, measured with its own ways of copying.
#include <algorithm>
#include <cstring>
#include <vector>

#include "measure/measure.hpp"
#include "measure/timer.hpp"

namespace opforge {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

std::size_t pick_buffer_bytes(const DeviceInfo& device, std::size_t asked) {
  if (asked > 0) return asked;
  const std::size_t least = (device.device.kind == DeviceKind::kCpu ? 64 : 256) * kMegabyte;
  std::size_t bytes =
      std::max(least, static_cast<std::size_t>(std::max<std::int64_t>(device.l2_bytes, 0)) * 8);
  if (device.memory_bytes > 0)
    bytes = std::min(bytes, static_cast<std::size_t>(device.memory_bytes) / 8);
  return std::max(bytes & ~(kMegabyte - 1), kMegabyte);
}

// Device memory that is given back when this goes out of scope.
struct DeviceBuffer {
  DeviceApi& api;
  int ordinal;
  void* memory = nullptr;
  ~DeviceBuffer() {
    if (memory != nullptr) api.release(ordinal, memory, nullptr);
  }
};

// Pages must exist and differ: untouched memory can be one shared page of zeros.
Status fill(DeviceApi& api, int ordinal, void* memory, std::size_t bytes) {
  std::vector<std::uint32_t> block(std::min(bytes, 8 * kMegabyte) / 4);
  std::uint32_t state = 12345;
  for (auto& word : block) word = state = state * 1664525u + 1013904223u;
  const std::size_t block_bytes = block.size() * 4;
  for (std::size_t at = 0; at < bytes; at += block_bytes) {
    OPFORGE_TRY(api.copy(ordinal, static_cast<std::byte*>(memory) + at, block.data(),
                         std::min(block_bytes, bytes - at)));
  }
  return {};
}

}  // namespace

Result<CopyCeiling> measure_copy_ceiling(DeviceApi& api, const DeviceInfo& device,
                                         std::size_t buffer_bytes) {
  const int ordinal = device.device.ordinal;
  const std::size_t bytes = pick_buffer_bytes(device, buffer_bytes);
  DeviceBuffer from{api, ordinal}, to{api, ordinal};
  OPFORGE_ASSIGN(from.memory, api.allocate(ordinal, bytes, nullptr));
  OPFORGE_ASSIGN(to.memory, api.allocate(ordinal, bytes, nullptr));
  OPFORGE_TRY(fill(api, ordinal, from.memory, bytes));
  OPFORGE_TRY(fill(api, ordinal, to.memory, bytes));

  const std::shared_ptr<Timer> timer = timer_of(api);
  const std::vector<std::string> methods = timer->copy_methods();
  std::vector<Subject> subjects;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    subjects.push_back({methods[i], [&, i](std::size_t, StreamHandle stream) {
                          return timer->queue_copy(i, ordinal, stream, to.memory, from.memory,
                                                   bytes);
                        }});
  }
  MeasureOptions options;
  options.rounds = 11;
  options.warmup_runs = 2;
  options.time_limit_s = 3;
  options.allow_recording = false;
  Floor work;
  work.bytes = 2 * static_cast<double>(bytes);
  OPFORGE_ASSIGN(const Comparison comparison, measure(*timer, ordinal, subjects, work, options));
  CopyCeiling out;
  out.buffer_bytes = bytes;
  out.noise = comparison.noise;
  for (const Reading& reading : comparison.readings) {
    if (!reading.rejected.empty() || reading.bytes_per_second <= out.bytes_per_second) continue;
    out.bytes_per_second = reading.bytes_per_second;
    out.method = reading.name;
  }
  if (out.bytes_per_second <= 0) {
    return fail(Code::kInternal,
                "no way of copying memory gave a time that can be believed on " + device.model,
                "measure/ceiling");
  }
  return out;
}

}  // namespace opforge
