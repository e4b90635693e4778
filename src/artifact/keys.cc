#include "artifact/keys.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "artifact/keys";
constexpr std::string_view kSecretTag = "opforge-signing-key ";

void init_sodium() {
  static const int ready = sodium_init();  // thread-safe; only the random generator needs it
  (void)ready;
}

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  std::string out(size * 2 + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), bytes, size);
  out.pop_back();
  return out;
}

template <std::size_t N>
bool from_hex(std::string_view hex, std::array<unsigned char, N>& out) {
  std::size_t size = 0;
  return hex.size() == 2 * N &&
         sodium_hex2bin(out.data(), N, hex.data(), hex.size(), nullptr, &size, nullptr) == 0 &&
         size == N;
}

}  // namespace

struct SigningKey::Secret {
  std::array<unsigned char, crypto_sign_SECRETKEYBYTES> key{};
  std::array<unsigned char, crypto_sign_PUBLICKEYBYTES> pub{};
  ~Secret() { sodium_memzero(key.data(), key.size()); }
};

SigningKey SigningKey::generate() {
  init_sodium();
  auto secret = std::make_shared<Secret>();
  crypto_sign_keypair(secret->pub.data(), secret->key.data());
  return SigningKey(std::move(secret));
}

Result<SigningKey> SigningKey::load(const Path& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    return fail(error == ENOENT ? Code::kNotFound : Code::kIo,
                fmt::format("signing key '{}': {}", file.string(), std::strerror(error)), kWhere);
  }
  struct stat info {};
  const bool known = fstat(fd, &info) == 0;
  char text[256];
  const ssize_t size = read(fd, text, sizeof text);
  close(fd);
  if (!known || size < 0)
    return fail(Code::kIo, fmt::format("signing key '{}' cannot be read", file.string()), kWhere);
  if ((info.st_mode & 077) != 0)
    return fail(
        Code::kUntrusted,
        fmt::format("signing key '{}' has mode {:04o}, so that others can use it: run `chmod "
                    "600` on it, or move it away to get a new key if it may have been read",
                    file.string(), info.st_mode & 07777),
        kWhere);
  const std::string_view line = trim(std::string_view(text, static_cast<std::size_t>(size)));
  std::array<unsigned char, crypto_sign_SEEDBYTES> seed{};
  const bool good = line.starts_with(kSecretTag) && from_hex(line.substr(kSecretTag.size()), seed);
  sodium_memzero(text, sizeof text);
  if (!good)
    return fail(
        Code::kCorrupt,
        fmt::format("'{}' holds no signing key (\"{}\" and 64 hex digits expected): move it "
                    "away to get a new key",
                    file.string(), kSecretTag),
        kWhere);
  auto secret = std::make_shared<Secret>();
  crypto_sign_seed_keypair(secret->pub.data(), secret->key.data(), seed.data());
  sodium_memzero(seed.data(), seed.size());
  return SigningKey(std::move(secret));
}

// Written beside and linked into place: link() never replaces, so that one of several first uses
// wins and nobody sees half a file. File systems without links get a rename that does not replace.
Status SigningKey::save(const Path& file) const {
  const Path folder = file.has_parent_path() ? file.parent_path() : Path(".");
  std::string staged = (folder / ".signing-XXXXXX").string();
  const int fd = mkostemp(staged.data(), O_CLOEXEC);  // mode 0600
  if (fd < 0)
    return fail(
        Code::kIo,
        fmt::format("cannot make a signing key in '{}': {}", folder.string(), std::strerror(errno)),
        kWhere);
  std::string text =
      std::string(kSecretTag) + to_hex(secret_->key.data(), crypto_sign_SEEDBYTES) + "\n";
  int error = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : ENOSPC;
  if (error == 0 && fsync(fd) != 0 && errno != EINVAL) error = errno;
  sodium_memzero(text.data(), text.size());
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && link(staged.c_str(), file.c_str()) != 0) {
    error = errno;
    if (error != EEXIST)
      error = renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) == 0
                  ? 0
                  : errno;
  }
  unlink(staged.c_str());
  if (error != 0)
    return fail(
        Code::kIo,
        fmt::format("cannot write signing key '{}': {}", file.string(), std::strerror(error)),
        kWhere);
  return {};
}

Result<SigningKey> SigningKey::user_key(const Path& config_folder) {
  if (config_folder.empty())
    return fail(Code::kIo, "no folder for the signing key: set OPFORGE_CONFIG_DIR (or HOME)",
                kWhere);
  const Path file = config_folder / "signing.key";
  auto existing = load(file);
  if (existing || existing.error().code != Code::kNotFound) return existing;
  OPFORGE_TRY(make_dirs(config_folder, 0700));
  if (auto saved = generate().save(file); !saved) {
    // Another process may have been first: its key is the user's.
    auto theirs = load(file);
    if (!theirs && theirs.error().code == Code::kNotFound) return fail(std::move(saved.error()));
    return theirs;
  }
  return load(file);
}

std::string SigningKey::public_hex() const {
  return to_hex(secret_->pub.data(), secret_->pub.size());
}

std::string SigningKey::sign(std::string_view message) const {
  std::array<unsigned char, crypto_sign_BYTES> signature{};
  crypto_sign_detached(signature.data(), nullptr,
                       reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                       secret_->key.data());
  return to_hex(signature.data(), signature.size());
}

bool verify_signature(std::string_view public_hex, std::string_view message,
                      std::string_view signature_hex) {
  std::array<unsigned char, crypto_sign_PUBLICKEYBYTES> key{};
  std::array<unsigned char, crypto_sign_BYTES> signature{};
  if (!from_hex(public_hex, key) || !from_hex(signature_hex, signature)) return false;
  return crypto_sign_verify_detached(signature.data(),
                                     reinterpret_cast<const unsigned char*>(message.data()),
                                     message.size(), key.data()) == 0;
}

}  // namespace opforge
