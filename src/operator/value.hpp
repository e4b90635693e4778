// A scalar value: checked 64-bit integer, double, or text (enumerated attributes and dtype names).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace opforge {

using Value = std::variant<std::int64_t, double, std::string>;  // booleans are integers 0 and 1
using ValueMap =
    std::map<std::string, Value, std::less<>>;  // ordered: canonical in fingerprints and files

std::string to_string(const Value& value);  // "4096", "1e-06" (round-trips), "tanh"

}  // namespace opforge
