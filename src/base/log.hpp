// Levelled logging through a callback. The core never prints: without a sink, messages go nowhere.
#pragma once

#include <functional>
#include <string_view>

namespace opforge {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogSink = std::function<void(LogLevel, std::string_view subsystem, std::string_view message)>;
void set_log_sink(LogSink sink, LogLevel least = LogLevel::kInfo);  // thread-safe; an empty sink turns logging off
bool log_enabled(LogLevel level);                                  // one relaxed load
void log(LogLevel level, std::string_view subsystem, std::string_view message);

}  // namespace opforge
