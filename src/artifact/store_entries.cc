// Listing, clearing and pruning a store.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <tuple>

#include "artifact/store.hpp"

namespace opforge {
namespace {

namespace fs = std::filesystem;
constexpr char kWhere[] = "artifact/store";

bool own(const Path& path) { return path.filename().string().starts_with('.'); }

// Sub-folders by name, without the store's own; an unreadable or vanished folder has none.
std::vector<Path> folders_of(const Path& path) {
  std::vector<Path> out;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored) && !own(it->path())) out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::uint64_t size_of(const Path& entry) {
  std::uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(entry, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (const auto size = it->file_size(ignored); !ignored) total += size;
  }
  return total;
}

std::int64_t age_of(const Path& entry) {
  std::error_code error;
  const auto written = fs::last_write_time(entry, error);
  if (error) return 0;
  const auto age = fs::file_time_type::clock::now() - written;
  return std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(age).count());
}

// What crashed processes left: staging folders that nobody can still be writing, and what was set
// aside.
constexpr std::int64_t kAbandonedAfterS = 24 * 3600;
void sweep(const Path& folder, std::int64_t older_than_s) {
  std::error_code error;
  std::vector<Path> dead;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(".staging") &&
        age_of(it->path()) >= older_than_s)
      dead.push_back(it->path());
  for (const auto& path : dead) fs::remove_all(path, error);
}

}  // namespace

Result<std::vector<StoreEntry>> Store::list() const {
  std::vector<StoreEntry> out;
  if (root_.empty()) return out;
  for (const auto& target : folders_of(root_ / "v1"))
    for (const auto& op : folders_of(target))
      for (const auto& path : folders_of(op)) {
        StoreEntry entry;
        entry.target = target.filename().string();
        entry.op = op.filename().string();
        if (auto key = Digest::from_hex(path.filename().string()))
          entry.code_key = *key;
        else
          continue;
        entry.size_bytes = size_of(path);
        entry.age_s = age_of(path);
        if (auto text = read_file(path / "manifest.json"))
          if (auto artifact = manifest_from_json(*text))
            entry.variant = to_string(artifact->variant);
        out.push_back(std::move(entry));
      }
  return out;
}

// Renamed away first: a reader sees a whole entry or none.
Status Store::remove_entry(const Path& entry) {
  const Path trash = root_ / "v1" / ".trash";
  OPFORGE_ASSIGN(auto slot, TempDir::create(trash, "entry"));
  if (std::rename(entry.c_str(), slot.path().c_str()) != 0 && errno != ENOENT)
    return fail(Code::kIo,
                fmt::format("cannot remove '{}': {}", entry.string(), std::strerror(errno)),
                kWhere);
  return {};
}

Result<std::size_t> Store::clear(const std::string& target) {
  if (root_.empty()) return 0;
  std::size_t removed = 0;
  const Path layout = root_ / "v1";
  for (const auto& of_target : folders_of(layout)) {
    if (!target.empty() && of_target.filename() != target) continue;
    for (const auto& op : folders_of(of_target)) {
      for (const auto& entry : folders_of(op)) {
        OPFORGE_TRY(remove_entry(entry));
        ++removed;
      }
      sweep(op, kAbandonedAfterS);
      std::error_code ignored;  // not empty while another process stages: stays
      fs::remove(op, ignored);
    }
    std::error_code ignored;
    fs::remove(of_target, ignored);
  }
  std::error_code ignored;
  if (target.empty())
    for (const char* name : {".damaged", ".trash", ".locks"})
      fs::remove_all(layout / name, ignored);
  return removed;
}

Result<std::size_t> Store::prune(std::uint64_t max_bytes, std::int64_t max_age_s) {
  OPFORGE_ASSIGN(auto entries, list());
  std::sort(entries.begin(), entries.end(), [](const StoreEntry& a, const StoreEntry& b) {
    return std::tie(b.age_s, a.target, a.op, a.code_key) <
           std::tie(a.age_s, b.target, b.op, b.code_key);
  });  // oldest first
  std::uint64_t total = 0;
  for (const auto& entry : entries) total += entry.size_bytes;
  std::size_t removed = 0;
  for (const auto& entry : entries) {
    const bool too_old = max_age_s >= 0 && entry.age_s > max_age_s;
    if (!too_old && total <= max_bytes) continue;
    OPFORGE_TRY(remove_entry(entry_path(entry.target, entry.op, entry.code_key)));
    total -= entry.size_bytes;
    ++removed;
  }
  if (!root_.empty()) {
    std::error_code ignored;
    fs::remove_all(root_ / "v1" / ".damaged", ignored);
    for (const auto& target : folders_of(root_ / "v1"))
      for (const auto& op : folders_of(target)) sweep(op, kAbandonedAfterS);
  }
  return removed;
}

}  // namespace opforge
