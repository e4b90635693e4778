// Ed25519 keys: the user's own signing key, and which public keys a process trusts.
//
// Files in the config folder (0700):
//   signing.key    "opforge-signing-key <64 hex digits of the seed>", mode 0600. Whoever reads it
//   can sign in this user's name. trusted.keys   one public key in each line: "<64 hex digits> #
//   comment"
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "base/result.hpp"

namespace opforge {

class SigningKey {
 public:
  // The user's key at <config>/signing.key, made on first use; of several first uses at once one
  // key survives and all get it. kIo with no config folder names OPFORGE_CONFIG_DIR; else as
  // load().
  static Result<SigningKey> user_key(const Path& config_folder);
  // kNotFound, kUntrusted when group or others can read or write the file, kCorrupt when it holds
  // no key.
  static Result<SigningKey> load(const Path& file);
  static SigningKey generate();
  // Mode 0600, published whole; kIo "exists" rather than replacing a file that is there.
  Status save(const Path& file) const;
  std::string public_hex() const;
  std::string sign(std::string_view message) const;  // 64 bytes, as 128 hex digits

 private:
  struct Secret;  // wiped when the last copy goes
  explicit SigningKey(std::shared_ptr<const Secret> secret) : secret_(std::move(secret)) {}
  std::shared_ptr<const Secret> secret_;
};

// False for anything that is not a right signature, malformed hex included.
bool verify_signature(std::string_view public_hex, std::string_view message,
                      std::string_view signature_hex);

// Keys by which packs and attestations are accepted.
struct Trust {
  std::set<std::string> keys;   // public keys, lower-case hex
  bool allow_unsigned = false;  // by name only: --allow-unsigned, or the C option
  bool trusts(std::string_view public_hex) const { return keys.contains(std::string(public_hex)); }
};

// The user's own key if it exists (never made here), keys in <config>/trusted.keys, and those of
// OPFORGE_TRUST (hex keys or paths of files like trusted.keys, separated by ':'). With an empty
// folder only OPFORGE_TRUST. A file that names keys but is malformed or writable by others is an
// error: silently trusting less or more would be worse.
Result<Trust> process_trust(const Path& config_folder);

// The keys that one word names: 64 hex digits, or a file like trusted.keys. kInvalidArgument,
// kNotFound, kCorrupt.
Result<std::set<std::string>> parse_trusted(std::string_view key_hex_or_file);

// Add to <config>/trusted.keys (made 0600 if absent); keys that are there already are left alone.
Status trust_add(const Path& config_folder, std::string_view key_hex_or_file);

}  // namespace opforge
