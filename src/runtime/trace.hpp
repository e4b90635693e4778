// The trace of calls: what was called, what served it, how long it took. Bounded, thread-safe, one
// relaxed load when off.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "operator/signature.hpp"

namespace opforge {

struct TraceTensor {
  std::string name, dtype;
  std::vector<std::int64_t> dims, strides;
};

struct TraceRecord {
  std::string op, kernel, variant, backend, tier, contract;
  std::string grade;    // "exact", "nearest", "default", "reference", "forced"
  std::string outcome;  // "ok" or an error's code_name, "unavailable"
  std::string message;  // reason or error text
  std::string device;
  ValueMap attributes;
  std::vector<TraceTensor> tensors;
  std::int64_t start_ns = 0;  // steady clock
  double host_us = 0;         // host time of the call (CPU kernels: the whole run)
};

void trace_start(
    std::size_t capacity = 65536);  // clears; the oldest records are dropped beyond capacity
void trace_stop();
bool trace_on();
void trace_add(TraceRecord record);
std::vector<TraceRecord> trace_take();  // and clear
std::uint64_t trace_dropped();

std::string trace_to_json(const TraceRecord& record);  // one line
Result<TraceRecord> trace_from_json(std::string_view line);

}  // namespace opforge
