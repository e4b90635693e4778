#include "toolchain/venv.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/text.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "toolchain/venv";

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string{} : std::string(value);
}

tl::unexpected<Error> missing(std::string_view name, const Path& root, std::string_view what) {
  return fail(Code::kToolchain,
              fmt::format("{}: {} (looked in '{}'); make it with `opforge doctor --install {}`, or "
                          "name one in OPFORGE_DATA_DIR",
                          name, what, root.string(), name),
              kWhere);
}

// The line "version = 3.12.1" of pyvenv.cfg.
std::string configured_version(std::string_view text) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, equals));
    if (key == "version" || key == "version_info")
      return std::string(trim(std::string_view(line).substr(equals + 1)));
  }
  return {};
}

std::string minor_of(const std::string& version) {
  const std::size_t first = version.find('.');
  const std::size_t second = first == std::string::npos ? first : version.find('.', first + 1);
  return version.substr(0, second);
}

Path find_site_packages(const Path& root) {
  std::error_code error;
  Path found;
  for (const auto& entry : std::filesystem::directory_iterator(root / "lib", error)) {
    const Path site = entry.path() / "site-packages";
    if (!entry.path().filename().string().starts_with("python3")) continue;
    if (std::filesystem::is_directory(site, error) && (found.empty() || site < found)) found = site;
  }
  return found;
}

// "cuda_tile-1.7.0.dist-info" -> {"cuda-tile", "1.7.0"}.
std::pair<std::string, std::string> package_of(const std::string& folder) {
  const std::string stem = folder.substr(0, folder.rfind(".dist-info"));
  const std::size_t dash = stem.find('-');
  std::string name = stem.substr(0, dash);
  for (char& c : name)
    c = c == '_' || c == '.' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return {name, dash == std::string::npos ? std::string{} : stem.substr(dash + 1)};
}

// Whether a line of RECORD says something of the package and not of how it was installed.
bool is_content(std::string_view line) {
  return !line.empty() && !line.starts_with("..") && !line.starts_with("/") &&
         line.find("__pycache__/") == std::string_view::npos &&
         line.find(".dist-info/") == std::string_view::npos;
}

struct Facts {
  std::vector<std::pair<std::string, Path>> records;  // folder name, RECORD, sorted
  std::string identity;                               // of pyvenv.cfg and all RECORD files
};

bool add_identity(const Path& path, std::string& into) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  into += fmt::format("{}:{}:{}:{}.{}:{}.{};", info.st_dev, info.st_ino, info.st_size,
                      info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                      info.st_ctim.tv_nsec);
  return true;
}

Result<Facts> look(std::string_view name, const Path& root, const Path& site) {
  Facts facts;
  add_identity(root / "pyvenv.cfg", facts.identity);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(site, error)) {
    const std::string folder = entry.path().filename().string();
    if (folder.ends_with(".dist-info")) facts.records.emplace_back(folder, entry.path() / "RECORD");
  }
  std::sort(facts.records.begin(), facts.records.end());
  if (facts.records.empty()) return missing(name, root, "its environment holds no package");
  for (const auto& [folder, record] : facts.records) {
    if (add_identity(record, facts.identity)) continue;
    return missing(name, root,
                   fmt::format("the package {} of its environment has no RECORD, so "
                               "that it cannot be identified: remove it",
                               folder));
  }
  return facts;
}

Status read_packages(const Facts& facts, Venv& venv) {
  Fingerprint all;
  all.add("python", minor_of(venv.python_version));
  for (const auto& [folder, record] : facts.records) {
    const auto [package, version] = package_of(folder);
    venv.packages[package] = version;
    OPFORGE_ASSIGN(const std::string text, read_file(record));
    std::vector<std::string> lines = split(text, '\n');
    std::erase_if(lines, [](const std::string& line) { return !is_content(line); });
    std::sort(lines.begin(), lines.end());
    all.add("package", package).add("version", version);
    all.add("files", sha256(join(lines, "\n")));
  }
  venv.digest = all.finish();
  return {};
}

}  // namespace

Path data_folder() {
  if (const std::string own = variable("OPFORGE_DATA_DIR"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_DATA_HOME"); !xdg.empty()) return Path(xdg) / "opforge";
  if (const std::string home = variable("HOME"); !home.empty())
    return Path(home) / ".local" / "share" / "opforge";
  return {};
}

Path venv_folder(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (const std::string own = variable("OPFORGE_VENV_" + upper); !own.empty()) return own;
  const Path data = data_folder();
  return data.empty() ? Path{} : data / "venvs" / name;
}

Result<std::shared_ptr<const Venv>> find_venv(std::string_view name) {
  auto venv = std::make_shared<Venv>();
  venv->name = name;
  venv->root = venv_folder(name);
  if (venv->root.empty())
    return missing(name, venv->root, "no folder for environments: HOME is not set either");
  const auto config = read_file(venv->root / "pyvenv.cfg");
  if (!config) return missing(name, venv->root, "its Python environment is not installed");
  venv->python = venv->root / "bin" / "python3";
  if (access(venv->python.c_str(), X_OK) != 0)
    return missing(name, venv->root, "its environment has no interpreter bin/python3");
  venv->site_packages = find_site_packages(venv->root);
  if (venv->site_packages.empty())
    return missing(name, venv->root, "its environment has no lib/python3.*/site-packages");
  OPFORGE_ASSIGN(const Facts facts, look(name, venv->root, venv->site_packages));

  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Venv>> known;
  const std::string key = venv->root.string() + "\n" + facts.identity;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  venv->python_version = configured_version(*config);
  OPFORGE_TRY(read_packages(facts, *venv));
  const std::lock_guard lock(mutex);
  return known[key] = std::move(venv);
}

}  // namespace opforge
