#include "toolchain/source.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/text.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "toolchain/source";

Path executable_folder() {
  std::error_code error;
  const Path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? Path{} : self.parent_path();
}

// Splices continued lines and blanks out comments; string literals stay, so that "//" within one is
// no comment.
std::string without_comments(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      i++;
    } else if (text[i] == '\\' && text.substr(i + 1, 2) == "\r\n") {
      i += 2;
    } else {
      joined += text[i];
    }
  }
  std::string out;
  out.reserve(joined.size());
  char quote = 0;
  for (std::size_t i = 0; i < joined.size(); i++) {
    const char c = joined[i], next = i + 1 < joined.size() ? joined[i + 1] : '\0';
    if (quote != 0) {
      out += c;
      if (c == '\\' && next != '\0') {
        out += next;
        i++;
      } else if (c == quote || c == '\n') {
        quote = 0;
      }
    } else if (c == '/' && next == '/') {
      while (i < joined.size() && joined[i] != '\n') i++;
      out += '\n';
    } else if (c == '/' && next == '*') {
      const std::size_t end = joined.find("*/", i + 2);
      out += ' ';
      i = end == std::string::npos ? joined.size() : end + 1;
    } else {
      // A digit separator (1'000) is no character literal.
      const bool separator =
          c == '\'' && !out.empty() && std::isalnum(static_cast<unsigned char>(out.back()));
      if ((c == '"' || c == '\'') && !separator) quote = c;
      out += c;
    }
  }
  return out;
}

struct Includes {
  std::vector<std::string> quoted, system;
};

Result<Includes> includes_of(const std::string& name, std::string_view bytes) {
  Includes found;
  for (const std::string& line : split(without_comments(bytes), '\n')) {
    std::string_view rest = trim(line);
    if (rest.starts_with("#")) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("%:")) {
      rest.remove_prefix(2);
    } else {
      continue;
    }
    rest = trim(rest);
    if (rest.starts_with("embed") || rest.starts_with("import")) {
      return fail(
          Code::kInvalidDeclaration,
          fmt::format("{}: '#{}' is not supported: include files by #include \"...\"", name, rest),
          kWhere);
    }
    if (!rest.starts_with("include")) continue;
    rest = trim(rest.substr(rest.starts_with("include_next") ? 12 : 7));
    const char close = rest.starts_with("\"") ? '"' : rest.starts_with("<") ? '>' : '\0';
    const std::size_t end =
        close == '\0' || rest.size() < 2 ? std::string_view::npos : rest.find(close, 1);
    if (end == std::string_view::npos) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{}: cannot read '#include {}': the name must be written out, as "
                              "\"file\" or <file>, so that "
                              "the code key covers it",
                              name, rest),
                  kWhere);
    }
    (close == '"' ? found.quoted : found.system).emplace_back(rest.substr(1, end - 1));
  }
  return found;
}

class Collector {
 public:
  explicit Collector(std::span<const Path> roots) : roots_(roots) {}

  // Take `name` of root `root` and everything it includes.
  Status take(const std::string& name, std::size_t root) {
    if (const auto known = root_of_.find(name); known != root_of_.end()) {
      if (known->second == root) return {};
      return fail(
          Code::kInvalidDeclaration,
          fmt::format("'{}' is in {} and in {}: one name must mean one file; rename the operator's",
                      name, roots_[known->second].string(), roots_[root].string()),
          kWhere);
    }
    OPFORGE_ASSIGN(std::string bytes, read_file(roots_[root] / name));
    root_of_[name] = root;
    auto includes = includes_of(name, bytes);
    if (!includes) return fail(includes.error());
    files_[name] = std::move(bytes);
    set_.system_includes.insert(includes->system.begin(), includes->system.end());
    for (const std::string& include : includes->quoted) OPFORGE_TRY(resolve(name, root, include));
    return {};
  }

  SourceSet finish() {
    set_.files.assign(files_.begin(), files_.end());
    return std::move(set_);
  }

 private:
  Status resolve(const std::string& from, std::size_t root, const std::string& include) {
    const Path beside = (Path(from).parent_path() / include).lexically_normal();
    std::string outside;
    if (auto status = try_take(root, beside); status.has_value()) return *status;
    if (escapes(beside)) outside = ", and leaves its folder";
    const Path plain = Path(include).lexically_normal();
    for (std::size_t i = 0; i < roots_.size(); i++) {
      if (auto status = try_take(i, plain); status.has_value()) return *status;
    }
    std::vector<std::string> names;
    for (const Path& path : roots_) names.push_back(path.string());
    return fail(
        Code::kInvalidDeclaration,
        fmt::format("{} includes \"{}\", which is in none of the folders that its code key covers "
                    "({}){}: move the "
                    "file into the operator's folder, or write <...> for a header of the toolchain",
                    from, include, join(names, ", "), outside),
        kWhere);
  }

  static bool escapes(const Path& path) {
    return path.is_absolute() || (!path.empty() && *path.begin() == "..");
  }

  std::optional<Status> try_take(std::size_t root, const Path& name) {
    std::error_code error;
    if (escapes(name) || !std::filesystem::is_regular_file(roots_[root] / name, error))
      return std::nullopt;
    return take(name.generic_string(), root);
  }

  std::span<const Path> roots_;
  std::map<std::string, std::size_t> root_of_;
  std::map<std::string, std::string> files_;
  SourceSet set_;
};

}  // namespace

Path source_root() {
  if (const char* named = std::getenv("OPFORGE_SOURCE_DIR"); named != nullptr && *named != '\0')
    return Path(named);
  std::error_code error;
  const Path shared = executable_folder() / ".." / "share" / "opforge";
  if (std::filesystem::is_directory(shared / "ops", error))
    return std::filesystem::weakly_canonical(shared, error);
  return Path(build_source_dir());
}

Result<SourceSet> source_set(std::span<const std::string> sources, std::span<const Path> roots) {
  Collector collector(roots);
  for (const std::string& source : sources) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(roots[0] / source, error)) {
      return fail(Code::kNotFound,
                  fmt::format("source file '{}' is not in {}", source, roots[0].string()), kWhere);
    }
    OPFORGE_TRY(collector.take(Path(source).lexically_normal().generic_string(), 0));
  }
  return collector.finish();
}

Status SourceSet::write_to(const Path& folder) const {
  for (const auto& [name, bytes] : files) {
    const Path path = folder / name;
    OPFORGE_TRY(make_dirs(path.parent_path()));
    std::ofstream out(path, std::ios::binary);
    out << bytes;
    if (!out.flush())
      return fail(Code::kIo, fmt::format("cannot write '{}'", path.string()), kWhere);
  }
  return {};
}

Result<std::vector<std::pair<std::string, std::string>>> source_closure(
    const Operator& op, const KernelDecl& kernel, const std::string& backend_include) {
  const std::vector<Path> roots{Path(op.folder), Path(backend_include)};
  auto set = source_set(kernel.sources, roots);
  if (!set) {
    Error error = set.error();
    error.message =
        fmt::format("kernel '{}' of {}: {}", kernel.id, op.signature.name, error.message);
    return fail(std::move(error));
  }
  return std::move(set->files);
}

Result<Digest> file_digest(const Path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return fail(Code::kNotFound, fmt::format("cannot read '{}'", path.string()), kWhere);
  using Identity = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t,
                              std::int64_t, std::int64_t, std::int64_t>;
  const Identity identity{info.st_dev,         info.st_ino,          info.st_size,
                          info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                          info.st_ctim.tv_nsec};
  static std::mutex mutex;
  static std::map<Identity, Digest> known;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(identity); it != known.end()) return it->second;
  }
  OPFORGE_ASSIGN(std::string bytes, read_file(path));
  const Digest digest = sha256(std::string_view(bytes));
  const std::lock_guard lock(mutex);
  known.emplace(identity, digest);
  return digest;
}

}  // namespace opforge
