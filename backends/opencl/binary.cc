#include "backends/opencl/binary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.hpp"

namespace opforge::ocl {
namespace {

// The magic, one line of JSON that says what follows, the source, the binary.
constexpr std::string_view kMagic = "opforge opencl 1\n";

tl::unexpected<Error> corrupt(std::string_view why) {
  return fail(Code::kCorrupt, fmt::format("OpenCL code: {}; rebuild the pack", why),
              "backends/opencl/binary");
}

}  // namespace

std::string pack_image(const CodeImage& image) {
  const nlohmann::json header = {{"platform", image.built_for.platform},
                                 {"device", image.built_for.device},
                                 {"driver", image.built_for.driver},
                                 {"platform_version", image.built_for.platform_version},
                                 {"options", image.options},
                                 {"source_bytes", image.source.size()},
                                 {"binary_bytes", image.binary.size()}};
  // Names come from drivers and need not be UTF-8.
  const std::string line = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return std::string(kMagic) + line + "\n" + image.source + image.binary;
}

Result<CodeImage> unpack_image(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return corrupt("it does not start as such code does");
  bytes.remove_prefix(kMagic.size());
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos) return corrupt("its description is cut off");
  const auto header = nlohmann::json::parse(bytes.substr(0, end), nullptr, false);
  bytes.remove_prefix(end + 1);
  CodeImage image;
  std::size_t source_bytes = 0, binary_bytes = 0;
  try {
    image.built_for = {header.at("platform"), header.at("device"), header.at("driver"),
                       header.at("platform_version")};
    image.options = header.at("options").get<std::vector<std::string>>();
    source_bytes = header.at("source_bytes").get<std::size_t>();
    binary_bytes = header.at("binary_bytes").get<std::size_t>();
  } catch (const nlohmann::json::exception&) {
    return corrupt("its description cannot be read");
  }
  if (source_bytes > bytes.size() || bytes.size() - source_bytes != binary_bytes)
    return corrupt(
        fmt::format("{} bytes of source and {} of binary were written, {} bytes are here",
                    source_bytes, binary_bytes, bytes.size()));
  image.source = bytes.substr(0, source_bytes);
  image.binary = bytes.substr(source_bytes);
  return image;
}

void make_reproducible(std::string& binary, std::string_view key) {
  // "poclbin", numbers, then from byte 36 on the folder: two letters A to P, "/", 37 more, a zero.
  constexpr std::string_view kPocl{"poclbin", 8};
  constexpr std::size_t kFolderAt = 36, kFolderBytes = 40;
  if (binary.size() <= kFolderAt + kFolderBytes || !binary.starts_with(kPocl) ||
      binary[kFolderAt + kFolderBytes] != '\0')
    return;
  const std::string folder = binary.substr(kFolderAt, kFolderBytes);
  for (std::size_t i = 0; i < folder.size(); ++i) {
    if (i == 2 ? folder[i] != '/' : folder[i] < 'A' || folder[i] > 'P') return;
  }
  const std::string hex = sha256(key).hex();
  for (std::size_t i = 0; i < kFolderBytes; ++i) {
    if (i == 2) continue;
    const char digit = hex[i];
    binary[kFolderAt + i] =
        static_cast<char>('A' + (digit <= '9' ? digit - '0' : digit - 'a' + 10));
  }
}

}  // namespace opforge::ocl
