#include "operator/value.hpp"

#include <fmt/format.h>

namespace opforge {

std::string to_string(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) {
    std::string text = fmt::format("{}", *number);
    // "1" would read back as an integer, which is another value in fingerprints.
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return text;
  }
  return std::get<std::string>(value);
}

}  // namespace opforge
