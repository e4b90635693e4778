// Small text helpers for messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opforge {

std::vector<std::string> split(std::string_view text, char separator);  // "a,b" -> {"a","b"}; "" -> {}
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view text);

// Up to `most` of `known` closest to `name` by edit distance, nearest first; for "did you mean".
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known, std::size_t most = 3);

}  // namespace opforge
