// Ed25519 keys: the user's own signing key, and which public keys a process trusts.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "base/result.hpp"

namespace opforge {

struct PublicKey {
  std::string hex;  // 64 hex digits
};

class SigningKey {
 public:
  // The user's key at <config>/signing.key (mode 0600), made on first use. kIo with no config folder names OPFORGE_CONFIG_DIR.
  static Result<SigningKey> user_key(const Path& config_folder);
  static Result<SigningKey> load(const Path& file);
  static SigningKey generate();
  Status save(const Path& file) const;  // 0600; refuses to overwrite
  std::string public_hex() const;
  std::string sign(std::string_view message) const;  // 64 bytes, as 128 hex digits

 private:
  std::string secret_;  // 64 bytes
};

bool verify_signature(std::string_view public_hex, std::string_view message, std::string_view signature_hex);

// Keys by which packs and attestations are accepted.
struct Trust {
  std::set<std::string> keys;    // public keys, hex
  bool allow_unsigned = false;   // by name only: --allow-unsigned, or the C option
  bool trusts(std::string_view public_hex) const { return keys.contains(std::string(public_hex)); }
};
// The user's own key if it exists (never made here), keys in <config>/trusted.keys, and those of OPFORGE_TRUST (hex keys or
// file paths, separated by ':'). With an empty folder only OPFORGE_TRUST.
Result<Trust> process_trust(const Path& config_folder);
Status trust_add(const Path& config_folder, std::string_view key_hex_or_file);

}  // namespace opforge
