#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "artifact/keys.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "artifact/trust";

bool is_hex_key(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(),
                                          [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// A public key in lower case; kInvalidArgument when the digits are no point of the curve (a typing
// error, most likely).
Result<std::string> checked_key(std::string_view hex) {
  std::string key(hex);
  std::transform(key.begin(), key.end(), key.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::array<unsigned char, crypto_core_ed25519_BYTES> bytes{};
  std::size_t size = 0;
  sodium_hex2bin(bytes.data(), bytes.size(), key.data(), key.size(), nullptr, &size, nullptr);
  if (crypto_core_ed25519_is_valid_point(bytes.data()) != 1)
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not an Ed25519 public key: check it against the one that the "
                            "signer's `opforge pack inspect` shows",
                            key),
                kWhere);
  return key;
}

// Lines of a file of public keys.
Result<std::set<std::string>> keys_in(const Path& file) {
  OPFORGE_ASSIGN(const std::string text, read_file(file));
  struct stat info {};
  if (stat(file.c_str(), &info) == 0 && (info.st_mode & 022) != 0)
    return fail(
        Code::kUntrusted,
        fmt::format("'{}' has mode {:04o}: others can add keys to it. Run `chmod go-w` on it",
                    file.string(), info.st_mode & 07777),
        kWhere);
  std::set<std::string> keys;
  int number = 0;
  for (const auto& line : split(text, '\n')) {
    ++number;
    const std::string_view word = trim(std::string_view(line).substr(0, line.find('#')));
    if (word.empty()) continue;
    if (word.starts_with("opforge-signing-key"))
      return fail(
          Code::kInvalidArgument,
          fmt::format("'{}' is a secret signing key: give the public key that its owner shows",
                      file.string()),
          kWhere);
    if (!is_hex_key(word))
      return fail(Code::kCorrupt,
                  fmt::format("{}:{}: '{}' is not a public key (64 hex digits, then '# comment' if "
                              "wanted)",
                              file.string(), number, word.substr(0, 80)),
                  kWhere);
    auto key = checked_key(word);
    if (!key)
      return fail(Code::kCorrupt,
                  fmt::format("{}:{}: {}", file.string(), number, key.error().message), kWhere);
    keys.insert(std::move(*key));
  }
  return keys;
}

Status add_own_key(const Path& config_folder, Trust& trust) {
  auto own = SigningKey::load(config_folder / "signing.key");
  if (own) {
    trust.keys.insert(own->public_hex());
    return {};
  }
  if (own.error().code == Code::kNotFound) return {};
  if (own.error().code ==
      Code::kIo) {  // another user's folder: packs of that key are then refused by name
    log(LogLevel::kWarning, "trust", own.error().message);
    return {};
  }
  return fail(std::move(own.error()));
}

}  // namespace

Result<std::set<std::string>> parse_trusted(std::string_view key_hex_or_file) {
  const std::string word(trim(key_hex_or_file));
  if (is_hex_key(word)) {
    OPFORGE_ASSIGN(std::string key, checked_key(word));
    return std::set<std::string>{std::move(key)};
  }
  auto keys = keys_in(word);
  if (!keys && keys.error().code == Code::kNotFound)
    return fail(
        Code::kNotFound,
        fmt::format("'{}' is neither a public key (64 hex digits) nor a file that exists", word),
        kWhere);
  return keys;
}

Result<Trust> process_trust(const Path& config_folder) {
  Trust trust;
  if (!config_folder.empty()) {
    OPFORGE_TRY(add_own_key(config_folder, trust));
    auto listed = keys_in(config_folder / "trusted.keys");
    if (listed)
      trust.keys.merge(*listed);
    else if (listed.error().code != Code::kNotFound)
      return fail(std::move(listed.error()));
  }
  if (const char* named = std::getenv("OPFORGE_TRUST"); named != nullptr) {
    for (const auto& word : split(named, ':')) {
      if (trim(word).empty()) continue;
      auto keys = parse_trusted(word);
      if (!keys) {
        keys.error().message = "OPFORGE_TRUST: " + keys.error().message;
        return fail(std::move(keys.error()));
      }
      trust.keys.merge(*keys);
    }
  }
  return trust;
}

Status trust_add(const Path& config_folder, std::string_view key_hex_or_file) {
  if (config_folder.empty())
    return fail(Code::kIo, "no folder for trusted keys: set OPFORGE_CONFIG_DIR (or HOME)", kWhere);
  OPFORGE_ASSIGN(const auto added, parse_trusted(key_hex_or_file));
  OPFORGE_TRY(make_dirs(config_folder, 0700));
  const Path file = config_folder / "trusted.keys";
  const auto lock =
      FileLock::acquire(config_folder / ".trusted.lock", 10'000);  // two adds at once lose neither
  if (!lock) return fail(lock.error());
  auto existing = keys_in(file);
  if (!existing && existing.error().code != Code::kNotFound)
    return fail(std::move(existing.error()));
  std::string text;
  if (existing) {
    OPFORGE_ASSIGN(text, read_file(file));
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  bool changed = false;
  for (const auto& key : added) {
    if (existing && existing->contains(key)) continue;
    text += key + '\n';
    changed = true;
  }
  if (!changed) return {};
  return write_file_atomic(file, text, 0600);
}

}  // namespace opforge
