// What belongs to the process: version, seal, threads, logs, counters, traces.
#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "base/version.hpp"
#include "capi/support.hpp"
#include "runtime/backends.hpp"
#include "runtime/metrics.hpp"
#include "runtime/seal.hpp"
#include "runtime/threads.hpp"
#include "runtime/trace.hpp"

using namespace opforge;
using namespace opforge::capi;

extern "C" {

uint32_t opforge_abi_version(void) noexcept { return OPFORGE_ABI_VERSION; }
const char* opforge_version(void) noexcept { return kVersion; }

opforge_status opforge_seal(void) noexcept {
  seal();
  return OPFORGE_OK;
}

int opforge_is_sealed(void) noexcept { return is_sealed() ? 1 : 0; }

opforge_status opforge_develop(void) noexcept {
  develop();
  return OPFORGE_OK;
}

opforge_status opforge_sealed_misses_json(char** json) noexcept {
  return guarded([&] { return give_text(nlohmann::json(sealed_misses()).dump(), json); });
}

opforge_status opforge_set_threads(int threads) noexcept {
  set_cpu_threads(threads);
  return OPFORGE_OK;
}

opforge_status opforge_devices_json(char** json) noexcept {
  return guarded([&] {
    nlohmann::json list = nlohmann::json::array();
    for (const DeviceInfo& info : all_devices()) {
      list.push_back({{"device", device_name(info.device)},
                      {"model", info.model},
                      {"arch", info.arch},
                      {"driver", info.driver_version},
                      {"cores", info.sm_count},
                      {"memory_bytes", info.memory_bytes}});
    }
    return give_text(list.dump(), json);
  });
}

opforge_status opforge_set_log(opforge_log_function function, void* user,
                               int least_level) noexcept {
  return guarded([&] {
    if (least_level < 0 || least_level > 3)
      return failed(Code::kInvalidArgument, "the level is 0 to 3");
    if (function == nullptr) {
      set_log_sink({});
      return OPFORGE_OK;
    }
    set_log_sink(
        [function, user](LogLevel level, std::string_view subsystem, std::string_view message) {
          function(user, static_cast<int>(level), std::string(subsystem).c_str(),
                   std::string(message).c_str());
        },
        static_cast<LogLevel>(least_level));
    return OPFORGE_OK;
  });
}

opforge_status opforge_fallbacks_json(char** json) noexcept {
  return guarded([&] {
    nlohmann::json list = nlohmann::json::array();
    for (const FallbackCount& one : fallback_counts()) {
      list.push_back({{"op", one.op},
                      {"asked", tier_name(one.asked)},
                      {"used", tier_name(one.used)},
                      {"count", one.count}});
    }
    return give_text(list.dump(), json);
  });
}

opforge_status opforge_events_json(char** json) noexcept {
  return guarded([&] {
    nlohmann::json list = nlohmann::json::array();
    for (const NamedCount& one : event_counts()) {
      list.push_back({{"op", one.op}, {"name", one.name}, {"count", one.count}});
    }
    return give_text(list.dump(), json);
  });
}

opforge_status opforge_metrics_text(char** text) noexcept {
  return guarded([&] { return give_text(metrics_text(), text); });
}

opforge_status opforge_metrics_reset(void) noexcept {
  return guarded([&] {
    reset_counts();
    return OPFORGE_OK;
  });
}

opforge_status opforge_set_fallback_hook(opforge_fallback_function function, void* user) noexcept {
  return guarded([&] {
    if (function == nullptr) {
      set_fallback_hook({});
      return OPFORGE_OK;
    }
    set_fallback_hook([function, user](std::string_view op, Contract asked, Tier used) {
      function(user, std::string(op).c_str(), contract_of(asked), contract_of(used));
    });
    return OPFORGE_OK;
  });
}

opforge_status opforge_trace_start(size_t capacity) noexcept {
  return guarded([&] {
    capacity == 0 ? trace_start() : trace_start(capacity);
    return OPFORGE_OK;
  });
}

opforge_status opforge_trace_stop(void) noexcept {
  return guarded([&] {
    trace_stop();
    return OPFORGE_OK;
  });
}

opforge_status opforge_trace_take_json(char** json_lines) noexcept {
  return guarded([&] {
    std::string lines;
    for (const TraceRecord& record : trace_take()) lines += trace_to_json(record) + "\n";
    return give_text(lines, json_lines);
  });
}

}  // extern "C"
