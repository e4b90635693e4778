#include "artifact/store.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "artifact/store";
constexpr char kLayout[] = "v1";
// Longer than any compile; afterwards the lock's owner is taken for stuck and the work is done
// twice.
constexpr int kLockWaitMs = 20 * 60 * 1000;

void warn(const std::string& message) { log(LogLevel::kWarning, "store", message); }

// Targets and operators become folder names: a name that could lead elsewhere has no entry.
bool is_plain(const std::string& name) {
  if (name.empty() || name.size() > 200 || name.front() == '.') return false;
  for (unsigned char c : name)
    if (c < 0x20 || c == '/' || c == '\\' || c == 0x7f) return false;
  return true;
}

Status check_names(const std::string& target, const std::string& op) {
  if (is_plain(target) && is_plain(op)) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("target '{}' and operator '{}' must be plain names", target, op), kWhere);
}

}  // namespace

Result<Store> Store::open(Path root) {
  if (root.empty()) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
      warn(
          "no cache folder (OPFORGE_CACHE_DIR, XDG_CACHE_HOME and HOME are unset): nothing is "
          "kept");
    return Store({});
  }
  OPFORGE_TRY(make_dirs(root, 0700));
  struct stat info {};
  if (stat(root.c_str(), &info) != 0)
    return fail(Code::kIo, fmt::format("store '{}': {}", root.string(), std::strerror(errno)),
                kWhere);
  if ((info.st_mode & 0002) != 0)
    return fail(
        Code::kUntrusted,
        fmt::format("store '{}' has mode {:04o}: everybody can put code there, and code from a "
                    "store runs in your processes. Name a folder inside it, or run `chmod o-w`",
                    root.string(), info.st_mode & 07777),
        kWhere);
  return Store(std::move(root));
}

Path Store::entry_path(const std::string& target, const std::string& op,
                       const Digest& code_key) const {
  return root_ / kLayout / target / op / code_key.hex();
}

// Damaged entries go out of the way, so that the next build can publish; where that is not allowed
// they stay and stay misses.
void Store::set_aside(const Path& entry, const std::string& reason) const {
  const Path folder = root_ / kLayout / ".damaged";
  std::string outcome = "set aside";
  if (auto place = make_dirs(folder); !place) {
    outcome = "left where it is: " + place.error().message;
  } else if (auto slot = TempDir::create(folder, entry.filename().string().substr(0, 16)); !slot) {
    outcome = "left where it is: " + slot.error().message;
  } else if (std::rename(entry.c_str(), (slot->path() / "entry").c_str()) != 0) {
    outcome = fmt::format("left where it is: {}", std::strerror(errno));
  } else {
    slot->release();
  }
  warn(fmt::format("damaged entry '{}' ({}): {}", entry.string(), reason, outcome));
}

std::optional<Store::Loaded> Store::find(const std::string& target, const std::string& op,
                                         const Digest& code_key) {
  if (root_.empty() || !check_names(target, op)) return std::nullopt;
  const Path entry = entry_path(target, op, code_key);
  const auto manifest = read_file(entry / "manifest.json");
  if (!manifest && manifest.error().code == Code::kNotFound) {
    std::error_code absent;
    if (std::filesystem::exists(entry, absent)) set_aside(entry, "manifest.json is missing");
    return std::nullopt;
  }
  std::error_code ignored;
  if (!manifest && !std::filesystem::is_directory(entry, ignored)) {
    set_aside(entry, "it is not a folder");
    return std::nullopt;
  }
  if (!manifest) {  // not readable here and now: no proof of damage
    warn(fmt::format("cannot read '{}': {}", entry.string(), manifest.error().message));
    return std::nullopt;
  }
  auto artifact = manifest_from_json(*manifest);
  if (!artifact) {
    set_aside(entry, artifact.error().message);
    return std::nullopt;
  }
  if (artifact->code_key != code_key || artifact->variant.target != target ||
      artifact->variant.op != op) {
    set_aside(entry, fmt::format("its manifest is of {} {} for {}", artifact->variant.op,
                                 artifact->code_key.short_hex(), artifact->variant.target));
    return std::nullopt;
  }
  auto code = read_file(entry / "code");
  if (!code && code.error().code != Code::kNotFound) {
    warn(fmt::format("cannot read '{}': {}", entry.string(), code.error().message));
    return std::nullopt;
  }
  if (!code) {
    set_aside(entry, "code is missing");
    return std::nullopt;
  }
  if (const Digest digest = sha256(*code); digest != artifact->code_digest) {
    set_aside(entry,
              fmt::format("code has {} bytes of digest {}, the manifest says {}", code->size(),
                          digest.short_hex(), artifact->code_digest.short_hex()));
    return std::nullopt;
  }
  return Loaded{std::move(*artifact), std::move(*code)};
}

Status Store::publish(const Loaded& loaded) {
  if (root_.empty()) return {};
  const auto& variant = loaded.artifact.variant;
  OPFORGE_TRY(check_names(variant.target, variant.op));
  const Path entry = entry_path(variant.target, variant.op, loaded.artifact.code_key);
  OPFORGE_ASSIGN(const std::string manifest, manifest_to_json(loaded.artifact));
  OPFORGE_TRY(make_dirs(entry.parent_path()));
  OPFORGE_ASSIGN(auto staged, TempDir::create(entry.parent_path(), ".staging"));
  OPFORGE_TRY(write_file_atomic(staged.path() / "code", loaded.code, 0600));
  OPFORGE_TRY(write_file_atomic(staged.path() / "manifest.json", manifest, 0600));
  OPFORGE_TRY(publish_dir(staged.path(), entry));
  return {};
}

Result<Store::Loaded> Store::find_or_build(const std::string& target, const std::string& op,
                                           const Digest& code_key,
                                           const std::function<Result<Loaded>()>& build,
                                           bool* compiled) {
  if (compiled != nullptr) *compiled = false;
  OPFORGE_TRY(check_names(target, op));
  if (auto found = find(target, op, code_key)) return std::move(*found);
  std::optional<FileLock> lock;
  if (!root_.empty()) {
    const Path locks = root_ / kLayout / ".locks";
    if (make_dirs(locks)) {  // where locks cannot be had, at worst a compile is done twice
      if (auto got = FileLock::acquire(locks / code_key.hex(), kLockWaitMs)) {
        lock = std::move(*got);
        if (auto found = find(target, op, code_key)) return std::move(*found);
      } else if (got.error().code == Code::kTimeout) {
        warn(fmt::format(
            "{} for {}: another process has been building it for {} minutes, going on alone", op,
            target, kLockWaitMs / 60'000));
      }
    }
  }
  if (compiled != nullptr) *compiled = true;
  OPFORGE_ASSIGN(Loaded built, build());
  if (built.code.empty())
    return fail(Code::kToolchain,
                fmt::format("{}: the compiler gave no code for {}",
                            to_string(built.artifact.variant), target),
                kWhere);
  if (built.artifact.variant.target != target || built.artifact.variant.op != op)
    return fail(Code::kInternal,
                fmt::format("asked for {} for {}, built {} of {}", op, target,
                            to_string(built.artifact.variant), built.artifact.variant.op),
                kWhere);
  built.artifact.code_key = code_key;
  built.artifact.code_digest = sha256(built.code);
  if (auto published = publish(built); !published) {
    warn(fmt::format("{} is not kept: {}", to_string(built.artifact.variant),
                     published.error().message));
    return built;
  }
  if (auto stored = find(target, op, code_key)) return std::move(*stored);
  return built;
}

}  // namespace opforge
