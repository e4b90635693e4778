#include "toolchain/install.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "base/hash.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "toolchain/host_compiler.hpp"
#include "toolchain/source.hpp"
#include "toolchain/venv.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "toolchain/install";
constexpr double kPipLimitS = 3600;

struct Wanted {
  Path backend;       // backends/<name>
  Path requirements;  // of it
  Path target;        // the environment
};

Result<Wanted> find_wanted(const std::string& name) {
  const std::size_t equals = name.find("==");
  const std::string base = name.substr(0, equals);
  const std::string version = equals == std::string::npos ? "" : name.substr(equals + 2);
  Wanted wanted;
  wanted.backend = source_root() / "backends" / base;
  wanted.requirements =
      wanted.backend / fmt::format("requirements{}{}.txt", version.empty() ? "" : "-", version);
  const std::vector<std::string> known = installable();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    return fail(Code::kNotFound,
                fmt::format("nothing called '{}' can be installed; there are {}", name,
                            fmt::join(known, ", ")),
                kWhere);
  }
  const Path data = data_folder();
  if (data.empty()) {
    return fail(Code::kIo,
                "no folder for environments: set OPFORGE_DATA_DIR (HOME and XDG_DATA_HOME are not "
                "set either)",
                kWhere);
  }
  wanted.target = data / "venvs" / (version.empty() ? base : base + "-" + version);
  return wanted;
}

Result<ProcessResult> run(std::vector<std::string> argv, const InstallOptions& options) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.time_limit_s = kPipLimitS;
  // Settings of the user's own Python would change where packages go and come from.
  spec.environment = {{"PYTHONPATH", ""},
                      {"PYTHONHOME", ""},
                      {"PIP_REQUIRE_VIRTUALENV", "0"},
                      {"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
                      {"PIP_NO_INPUT", "1"}};
  for (const char* name : {"PYTHONPATH", "PYTHONHOME"}) {
    if (std::getenv(name) == nullptr) spec.environment.erase(name);
  }
  return run_process(spec, options.cancelled);
}

Status run_to_end(std::vector<std::string> argv, const InstallOptions& options,
                  std::string_view advice) {
  const std::string what = fmt::format("{}", fmt::join(argv, " "));
  OPFORGE_ASSIGN(const ProcessResult result, run(std::move(argv), options));
  if (result.end == ProcessEnd::kExited && result.exit_code == 0) return {};
  if (result.end == ProcessEnd::kCancelled) return fail(Code::kCancelled, "interrupted", kWhere);
  return fail(
      Code::kToolchain,
      fmt::format("'{}' {}\n{}{}{}", what, result.describe(),
                  last_lines(result.output + result.errors), advice.empty() ? "" : "\n", advice),
      kWhere);
}

// A Python from 3.10 to 3.13, as its own program and not as a wrapper in PATH.
Result<Path> find_python(const InstallOptions& options) {
  std::vector<std::string> candidates{"python3.12", "python3.11", "python3.13", "python3.10",
                                      "python3"};
  if (const char* own = std::getenv("OPFORGE_PYTHON"); own != nullptr && *own != '\0')
    candidates = {own};
  std::string tried;
  for (const std::string& name : candidates) {
    const auto result = run({name, "-c",
                             "import sys, venv; print(sys.version_info[0] * 100 + "
                             "sys.version_info[1]); print(sys.executable)"},
                            options);
    tried += (tried.empty() ? "" : ", ") + name;
    if (!result || result->end != ProcessEnd::kExited || result->exit_code != 0) continue;
    const std::vector<std::string> lines = split(trim(result->output), '\n');
    if (lines.size() == 2 && lines[0] >= "310" && lines[0] <= "313") return Path(lines[1]);
  }
  return fail(
      Code::kToolchain,
      fmt::format("no Python from 3.10 to 3.13 with its venv module (tried {}): install one "
                  "(Debian: apt-get install python3-venv) or name it in OPFORGE_PYTHON",
                  tried),
      kWhere);
}

// Stand-ins for packages that are imported and never used: copied with a RECORD, so that the
// environment's digest covers them.
Status add_stand_ins(const Path& stub, const Path& environment) {
  std::error_code error;
  if (!std::filesystem::is_directory(stub, error)) return {};
  Path site;
  for (const auto& entry : std::filesystem::directory_iterator(environment / "lib", error))
    site = entry.path() / "site-packages";
  std::string record;
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(stub, error)) {
    if (entry.is_regular_file() && entry.path().extension() == ".py") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const Path& file : files) {
    const Path name = file.lexically_relative(stub);
    OPFORGE_ASSIGN(const std::string text, read_file(file));
    OPFORGE_TRY(make_dirs((site / name).parent_path(), 0755));
    OPFORGE_TRY(write_file_atomic(site / name, text));
    record +=
        fmt::format("{},sha256={},{}\n", name.generic_string(), sha256(text).hex(), text.size());
  }
  const Path info = site / "opforge_stand_ins-1.dist-info";
  OPFORGE_TRY(make_dirs(info, 0755));
  OPFORGE_TRY(write_file_atomic(info / "METADATA", "Name: opforge-stand-ins\nVersion: 1\n"));
  return write_file_atomic(info / "RECORD", record);
}

Status fill(const Wanted& wanted, const Path& folder, const InstallOptions& options) {
  OPFORGE_ASSIGN(const Path python, find_python(options));
  const auto say = [&](std::string line) {
    if (options.progress) options.progress(line);
  };
  say(fmt::format("making it with {}", python.string()));
  const Path tool = folder / "tool", environment = folder / "environment";
  OPFORGE_TRY(run_to_end({python.string(), "-m", "venv", tool.string()}, options,
                         "the venv module is incomplete (Debian: apt-get install python3-venv)"));
  OPFORGE_TRY(run_to_end({python.string(), "-m", "venv", "--without-pip", environment.string()},
                         options, ""));
  say(fmt::format("installing {}", wanted.requirements.string()));
  OPFORGE_TRY(run_to_end(
      {(tool / "bin" / "python3").string(), "-m", "pip", "--python",
       (environment / "bin" / "python3").string(), "install", "--quiet", "--require-hashes",
       "--no-deps", "--no-compile", "--only-binary=:all:", "-r", wanted.requirements.string()},
      options, "the packages come from the package index that pip is set to"));
  return add_stand_ins(wanted.backend / "stub", environment);
}

}  // namespace

std::vector<std::string> installable() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& backend :
       std::filesystem::directory_iterator(source_root() / "backends", error)) {
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator(backend.path(), ignored)) {
      const std::string name = file.path().filename().string();
      const std::string base = backend.path().filename().string();
      if (name == "requirements.txt") names.push_back(base);
      if (name.starts_with("requirements-") && name.ends_with(".txt"))
        names.push_back(base + "==" + name.substr(13, name.size() - 17));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Path> install_environment(const std::string& name, const InstallOptions& options,
                                 bool* made) {
  if (made != nullptr) *made = false;
  OPFORGE_ASSIGN(const Wanted wanted, find_wanted(name));
  OPFORGE_TRY(make_dirs(wanted.target.parent_path()));
  OPFORGE_ASSIGN(const FileLock lock,
                 FileLock::acquire(wanted.target.string() + ".lock", /*wait_ms=*/-1));
  std::error_code error;
  if (std::filesystem::exists(wanted.target / "pyvenv.cfg", error) && !options.again)
    return wanted.target;
  OPFORGE_ASSIGN(TempDir staged, TempDir::create(wanted.target.parent_path(), ".making"));
  OPFORGE_TRY(fill(wanted, staged.path(), options));
  std::filesystem::remove_all(wanted.target, error);
  std::filesystem::rename(staged.path() / "environment", wanted.target, error);
  if (error) {
    return fail(Code::kIo,
                fmt::format("cannot move the environment to '{}': {}", wanted.target.string(),
                            error.message()),
                kWhere);
  }
  if (made != nullptr) *made = true;
  return wanted.target;
}

}  // namespace opforge
