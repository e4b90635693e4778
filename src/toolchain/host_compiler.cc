#include "toolchain/host_compiler.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "base/process.hpp"
#include "base/text.hpp"
#include "runtime/seal.hpp"
#include "toolchain/precompiled.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "toolchain/host_compiler";
constexpr double kTimeLimitS = 300;
constexpr const char* kPrefix = "opforge_prefix.hpp";
constexpr const char* kPrecompiled = "opforge_prefix.hpp.gch";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string(value);
}

bool is_program(const Path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

Path in_search_path(const std::string& name) {
  for (const std::string& folder : split(variable("PATH"), ':')) {
    if (!folder.empty() && is_program(Path(folder) / name)) return Path(folder) / name;
  }
  return {};
}

// Nothing of the user's environment reaches the compiler but where programs and libraries are:
// CPATH and the like would add inputs that no key covers.
ProcessSpec spec_of(const Path& program, std::vector<std::string> arguments, const Path& folder) {
  ProcessSpec spec;
  spec.argv.push_back(program.string());
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.clear_environment = true;
  spec.environment = {{"LC_ALL", "C"}, {"SOURCE_DATE_EPOCH", "0"}};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"}) {
    if (const std::string value = variable(name); !value.empty()) spec.environment[name] = value;
  }
  if (!folder.empty()) {
    spec.environment["TMPDIR"] = folder.string();
    spec.working_dir = folder;
  }
  spec.time_limit_s = kTimeLimitS;
  return spec;
}

Result<std::string> ask(const Path& program, std::vector<std::string> arguments) {
  OPFORGE_ASSIGN(ProcessResult result, run_process(spec_of(program, std::move(arguments), {})));
  if (result.end != ProcessEnd::kExited || result.exit_code != 0) {
    return fail(Code::kToolchain,
                fmt::format("'{}' does not answer like a C++ compiler: {}\n{}", program.string(),
                            result.describe(), last_lines(result.errors)),
                kWhere);
  }
  return std::string(trim(result.output));
}

Result<Path> find_program() {
  const std::string named = variable("OPFORGE_CXX");
  if (!named.empty()) {
    const Path path = named.find('/') == std::string::npos ? in_search_path(named) : Path(named);
    if (!path.empty() && is_program(path)) return path;
    return fail(
        Code::kToolchain,
        fmt::format("OPFORGE_CXX is '{}', which is no program here: set it to a C++20 compiler, or "
                    "unset it to use c++, g++ or clang++ from PATH",
                    named),
        kWhere);
  }
  for (const char* name : {"c++", "g++", "clang++"}) {
    if (Path path = in_search_path(name); !path.empty()) return path;
  }
  return fail(
      Code::kToolchain,
      "no C++ compiler: none of c++, g++, clang++ is in PATH; install one (Debian: apt-get install "
      "g++) or set OPFORGE_CXX",
      kWhere);
}

// The last word of the first line that looks like a version: "g++ (Debian 12.2.0-14) 12.2.0",
// "Debian clang version 14.0.6".
std::string version_in(std::string_view text) {
  const std::vector<std::string> lines = split(text, '\n');
  std::string found;
  for (const std::string& word : split(lines.empty() ? std::string{} : lines.front(), ' ')) {
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0) found = word;
  }
  return found;
}

// The names of a make rule's prerequisites: "unit.o: a.cc \\\n b.hpp". Blanks within names are
// escaped.
std::vector<Path> rule_inputs(std::string_view rule) {
  std::vector<Path> paths;
  std::size_t i = rule.find(": ");
  if (i == std::string_view::npos) return paths;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) paths.emplace_back(word);
    word.clear();
  };
  for (i += 2; i < rule.size(); i++) {
    const char c = rule[i];
    if (c == '\\' && i + 1 < rule.size()) {
      const char next = rule[++i];
      if (next == '\n')
        finish();
      else
        word += next;
    } else if (c == ' ' || c == '\n') {
      finish();
    } else {
      word += c;
    }
  }
  finish();
  return paths;
}

Result<TempDir> work_folder() {
  std::error_code error;
  Path parent = std::filesystem::temp_directory_path(error);
  if (error) parent = "/tmp";
  return TempDir::create(parent, "opforge-compile");
}

}  // namespace

std::string last_lines(std::string_view text, std::size_t most) {
  std::vector<std::string> lines = split(trim(text), '\n');
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - std::ptrdiff_t(most));
  return join(lines, "\n");
}

Result<std::shared_ptr<const HostCompiler>> HostCompiler::find() {
  OPFORGE_ASSIGN(Path path, find_program());
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return fail(Code::kToolchain, fmt::format("cannot read '{}'", path.string()), kWhere);
  const auto identity =
      std::tuple(path.string(), std::uint64_t(info.st_ino), std::int64_t(info.st_size),
                 std::int64_t(info.st_mtim.tv_sec), std::int64_t(info.st_mtim.tv_nsec),
                 std::int64_t(info.st_ctim.tv_sec), std::int64_t(info.st_ctim.tv_nsec));
  static std::mutex mutex;
  static std::map<decltype(identity), std::shared_ptr<const HostCompiler>> known;
  const std::lock_guard lock(mutex);
  if (const auto it = known.find(identity); it != known.end()) return it->second;

  auto compiler = std::make_shared<HostCompiler>();
  compiler->path_ = path;
  OPFORGE_ASSIGN(std::string banner, ask(path, {"--version"}));
  compiler->clang_ = banner.find("clang") != std::string::npos;
  compiler->version_ = version_in(banner);
  if (compiler->version_.empty()) {
    return fail(
        Code::kToolchain,
        fmt::format("'{}' is not a C++ compiler that opforge knows: --version says '{}'; GCC and "
                    "Clang are supported",
                    path.string(), banner.substr(0, 80)),
        kWhere);
  }
  compiler->programs_.push_back(path);
  for (const char* name : {"cc1plus", "as", "ld"}) {
    OPFORGE_ASSIGN(std::string program, ask(path, {std::string("-print-prog-name=") + name}));
    const Path found =
        program.find('/') == std::string::npos ? in_search_path(program) : Path(program);
    if (!found.empty() && is_program(found)) {
      compiler->programs_.push_back(found);
    } else if (!compiler->clang_) {  // Clang compiles and assembles itself
      return fail(
          Code::kToolchain,
          fmt::format(
              "'{}' has no {} ('{}'): install the complete compiler (Debian: apt-get install "
              "g++ binutils)",
              path.string(), name, program),
          kWhere);
    }
  }
  known[identity] = compiler;
  return std::shared_ptr<const HostCompiler>(compiler);
}

Result<ToolchainStamp> HostCompiler::stamp() const {
  Fingerprint all;
  for (const Path& program : programs_) {
    OPFORGE_ASSIGN(Digest digest, file_digest(program));
    all.add("program", digest);
  }
  return ToolchainStamp{clang_ ? "clang" : "gxx", version_, all.finish()};
}

Result<Digest> HostCompiler::library_digest(std::span<const std::string> names) const {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::string> found;
  Fingerprint all;
  for (const std::string& name : names) {
    std::string path;
    {
      const std::lock_guard lock(mutex);
      std::string& known = found[{path_.string(), name}];
      if (known.empty()) {
        OPFORGE_ASSIGN(known, ask(path_, {"-print-file-name=" + name}));
      }
      path = known;
    }
    if (path.find('/') == std::string::npos) continue;
    OPFORGE_ASSIGN(Digest digest, file_digest(path));
    all.add(name, digest);
  }
  return all.finish();
}

Result<std::vector<Path>> HostCompiler::headers(const std::set<std::string>& names,
                                                std::span<const std::string> flags) const {
  const std::vector<std::string> list(names.begin(), names.end());
  const std::string key =
      path_.string() + "\n" + version_ + "\n" + join(list, "\n") + "\n\n" + join(flags, "\n");
  static std::mutex mutex;
  static std::map<std::string, std::vector<Path>> known;
  const std::lock_guard lock(mutex);  // one thread asks, the others wait for its answer
  if (const auto it = known.find(key); it != known.end()) return it->second;

  OPFORGE_ASSIGN(TempDir folder, work_folder());
  SourceSet unit;
  std::string text;
  for (const std::string& name : list) text += fmt::format("#include <{}>\n", name);
  unit.files = {{"unit.cc", text}};
  OPFORGE_TRY(unit.write_to(folder.path()));
  std::vector<std::string> arguments(flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"-M", "unit.cc"});
  OPFORGE_ASSIGN(ProcessResult result, run_process(spec_of(path_, arguments, folder.path())));
  if (result.end != ProcessEnd::kExited || result.exit_code != 0) {
    return fail(Code::kToolchain,
                fmt::format("'{}' cannot read the headers {}: {}\n{}", path_.string(),
                            join(list, ", "), result.describe(), last_lines(result.errors)),
                kWhere);
  }
  std::vector<Path> paths = rule_inputs(result.output);
  std::erase(paths, Path("unit.cc"));
  known[key] = paths;
  return paths;
}

Result<Digest> HostCompiler::header_digest(const std::set<std::string>& names,
                                           std::span<const std::string> flags) const {
  OPFORGE_ASSIGN(std::vector<Path> paths, headers(names, flags));
  Fingerprint all;
  for (const Path& path : paths) {
    OPFORGE_ASSIGN(Digest digest, file_digest(path));
    all.add("header", digest);
  }
  return all.finish();
}

// The unit starts with the system headers that its sources name, in the order in which
// header_digest() reads them, precompiled where that pays.
std::string HostCompiler::prefix_text(const std::set<std::string>& names) {
  std::string text = "#pragma once\n";
  for (const std::string& name : names) text += fmt::format("#include <{}>\n", name);
  return text;
}

void HostCompiler::use_precompiled(const Unit& unit, const Path& folder) const {
  if (clang_) return;
  const auto digest = header_digest(unit.sources.system_includes, unit.flags);
  if (!digest) return;
  std::vector<std::string> arguments;
  for (const std::string& flag : unit.flags) {
    const bool links = flag.starts_with("-Wl,") || flag.starts_with("-static-") ||
                       flag == "-shared" || flag == "-nostdlib";
    if (!links) arguments.push_back(flag);
  }
  const std::string key = path_.string() + "\n" + digest->hex() + "\n" + join(arguments, "\n");
  const auto make = [&](const Path& where) -> Status {
    SourceSet prefix;
    prefix.files = {{kPrefix, prefix_text(unit.sources.system_includes)}};
    OPFORGE_TRY(prefix.write_to(where));
    arguments.insert(arguments.end(), {"-x", "c++-header", kPrefix, "-o", kPrecompiled});
    OPFORGE_ASSIGN(ProcessResult result, run_process(spec_of(path_, arguments, where)));
    if (result.end == ProcessEnd::kExited && result.exit_code == 0) return {};
    return fail(Code::kToolchain,
                "no precompiled headers: " + result.describe() + "\n" + last_lines(result.errors));
  };
  if (const auto made = precompiled(key, make)) {
    std::error_code ignored;  // without the link the headers are read as they are
    std::filesystem::create_symlink(*made / kPrecompiled, folder / kPrecompiled, ignored);
  }
}

Result<std::string> HostCompiler::build(const Unit& unit, std::string& log) const {
  OPFORGE_TRY(may_compile(unit.what));
  OPFORGE_ASSIGN(std::vector<Path> covered, headers(unit.sources.system_includes, unit.flags));
  OPFORGE_ASSIGN(TempDir folder, work_folder());
  SourceSet files = unit.sources;
  files.files.emplace_back(kPrefix, prefix_text(unit.sources.system_includes));
  files.files.emplace_back("opforge_unit.cc",
                           fmt::format("#include \"{}\"\n", kPrefix) + unit.text);
  OPFORGE_TRY(files.write_to(folder.path()));
  use_precompiled(unit, folder.path());

  // Relative names in a folder of its own, so that no path of this machine gets into the code.
  std::vector<std::string> arguments = unit.flags;
  arguments.insert(arguments.end(), {"-I.", "-MD", "-MF", "opforge_unit.d", "opforge_unit.cc", "-o",
                                     "opforge_unit.so"});
  OPFORGE_ASSIGN(ProcessResult result, run_process(spec_of(path_, arguments, folder.path())));
  const auto failed = [&](std::string_view how) {
    return fail(Code::kToolchain,
                fmt::format("{}: '{}' {}\n{}", unit.what, path_.string(), how,
                            last_lines(result.errors + result.output)),
                kWhere);
  };
  if (result.end != ProcessEnd::kExited || result.exit_code != 0) return failed(result.describe());
  auto code = read_file(folder.path() / "opforge_unit.so");
  if (!code) return failed("exited with 0 but left no output");
  if (code->empty()) return failed("exited with 0 but left an empty output");

  std::set<Path> allowed(covered.begin(), covered.end());
  const auto rule = read_file(folder.path() / "opforge_unit.d");
  for (const Path& path : rule_inputs(rule ? *rule : std::string{})) {
    if (!path.is_absolute() || allowed.contains(path)) continue;
    return fail(Code::kToolchain,
                fmt::format("{}: the compiler also read '{}', which the code key does not cover: "
                            "include that header by name, "
                            "before any macro that changes what other headers include",
                            unit.what, path.string()),
                kWhere);
  }
  log = std::move(result.errors);
  return std::move(*code);
}

Status load_test(std::string_view code, std::span<const std::string> symbols) {
  OPFORGE_ASSIGN(TempDir folder, work_folder());
  const Path file = folder.path() / "code.so";
  SourceSet one;
  one.files = {{"code.so", std::string(code)}};
  OPFORGE_TRY(one.write_to(folder.path()));
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return fail(
        Code::kToolchain,
        fmt::format("compiled code cannot be loaded: {} (code must be executable in TMPDIR: '{}')",
                    reason == nullptr ? "no reason given" : reason,
                    folder.path().parent_path().string()),
        kWhere);
  }
  Status status;
  for (const std::string& symbol : symbols) {
    if (dlsym(handle, symbol.c_str()) == nullptr) {
      status =
          fail(Code::kToolchain, fmt::format("compiled code has no symbol '{}'", symbol), kWhere);
      break;
    }
  }
  dlclose(handle);
  return status;
}

}  // namespace opforge
