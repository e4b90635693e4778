#include "backends/cuda/nvrtc.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.hpp"
#include "toolchain/source.hpp"
#include "toolchain/venv.hpp"

namespace opforge::cu {
namespace {

constexpr const char* kWhere = "backends/cuda/nvrtc";
constexpr std::array<std::string_view, 10> kToolkitHeaders{
    "cuda_bf16.h",  "cuda_bf16.hpp", "cuda_fp16.h",  "cuda_fp16.hpp", "cuda_fp4.h",
    "cuda_fp4.hpp", "cuda_fp6.h",    "cuda_fp6.hpp", "cuda_fp8.h",    "cuda_fp8.hpp"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// <root>/lib/python3.*/{site,dist}-packages, newest Python first.
void add_packages(const Path& root, std::vector<Path>& packages) {
  std::error_code error;
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(root / "lib", error)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* name : {"site-packages", "dist-packages"}) {
      if (std::filesystem::is_directory(entry.path() / name / "nvidia", error))
        found.push_back(entry.path() / name);
    }
  }
  std::sort(found.rbegin(), found.rend());
  packages.insert(packages.end(), found.begin(), found.end());
}

std::vector<Path> python_packages() {
  std::vector<Path> packages;
  if (const std::string venv = variable("VIRTUAL_ENV"); !venv.empty()) add_packages(venv, packages);
  if (const Path own = venv_folder("cuda"); !own.empty()) add_packages(own, packages);
  if (const std::string home = variable("HOME"); !home.empty())
    add_packages(Path(home) / ".local", packages);
  for (const char* root : {"/usr/local", "/usr"}) add_packages(root, packages);
  return packages;
}

}  // namespace

NvrtcPlaces nvrtc_places() {
  constexpr std::array<std::string_view, 2> kNames{"libnvrtc.so.13", "libnvrtc.so.12"};
  NvrtcPlaces places;
  std::vector<Path> toolkits;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string home = variable(name); !home.empty()) toolkits.emplace_back(home);
  }
  const auto add_toolkit_libraries = [&](const Path& toolkit) {
    for (const std::string_view name : kNames)
      places.libraries.push_back((toolkit / "lib64" / name).string());
  };
  for (const Path& toolkit : toolkits) add_toolkit_libraries(toolkit);
  for (const std::string_view name : kNames) places.libraries.emplace_back(name);
  toolkits.emplace_back("/usr/local/cuda");
  add_toolkit_libraries("/usr/local/cuda");
  for (const Path& toolkit : toolkits) places.includes.push_back(toolkit / "include");
  for (const Path& packages : python_packages()) {
    const Path nvidia = packages / "nvidia";
    places.libraries.push_back((nvidia / "cu13/lib/libnvrtc.so.13").string());
    for (const std::string_view name : kNames)
      places.libraries.push_back((nvidia / "cuda_nvrtc/lib" / name).string());
    places.includes.push_back(nvidia / "cu13/include");
    places.includes.push_back(nvidia / "cuda_runtime/include");
  }
  places.includes.emplace_back("/usr/include");  // where Debian's own toolkit puts them
  if (const std::string named = variable("OPFORGE_NVRTC"); !named.empty())
    places.libraries = {named};
  if (const std::string named = variable("OPFORGE_CUDA_INCLUDE"); !named.empty())
    places.includes = {named};
  return places;
}

Status Nvrtc::find_entries() {
  std::vector<std::string> missing;
  const auto find = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(library_.symbol(name));
    if (entry == nullptr) missing.emplace_back(name);
  };
  find(entries_.error, "nvrtcGetErrorString");
  find(entries_.version, "nvrtcVersion");
  find(entries_.arch_count, "nvrtcGetNumSupportedArchs");
  find(entries_.archs, "nvrtcGetSupportedArchs");
  find(entries_.create, "nvrtcCreateProgram");
  find(entries_.destroy, "nvrtcDestroyProgram");
  find(entries_.compile, "nvrtcCompileProgram");
  find(entries_.log_size, "nvrtcGetProgramLogSize");
  find(entries_.log, "nvrtcGetProgramLog");
  find(entries_.cubin_size, "nvrtcGetCUBINSize");
  find(entries_.cubin, "nvrtcGetCUBIN");
  find(entries_.ptx_size, "nvrtcGetPTXSize");
  find(entries_.ptx, "nvrtcGetPTX");
  if (missing.empty()) return {};
  return fail(Code::kToolchain,
              fmt::format("{} is too old: it lacks {}; {}", path_, fmt::join(missing, ", "),
                          kHowToGetNvrtc),
              kWhere);
}

Result<std::unique_ptr<Nvrtc>> Nvrtc::open(const std::vector<std::string>& libraries) {
  auto library = DynamicLibrary::open_first(libraries);
  if (!library) {
    return fail(Code::kToolchain,
                fmt::format("NVRTC, the compiler of CUDA C++, was not found; {} ({})",
                            kHowToGetNvrtc, library.error().message),
                kWhere);
  }
  auto nvrtc = std::make_unique<Nvrtc>();
  nvrtc->library_ = std::move(*library);
  std::error_code error;
  nvrtc->path_ = std::filesystem::canonical(nvrtc->library_.path(), error).string();
  if (error) nvrtc->path_ = nvrtc->library_.path();
  OPFORGE_TRY(nvrtc->find_entries());
  int count = 0;
  if (nvrtc->entries_.version(&nvrtc->major_, &nvrtc->minor_) != 0 ||
      nvrtc->entries_.arch_count(&count) != 0) {
    return fail(Code::kToolchain, fmt::format("{} does not answer nvrtcVersion", nvrtc->path_),
                kWhere);
  }
  nvrtc->archs_.resize(static_cast<std::size_t>(count));
  if (count > 0) nvrtc->entries_.archs(nvrtc->archs_.data());
  return nvrtc;
}

Result<Digest> Nvrtc::digest() const {
  Fingerprint all;
  OPFORGE_ASSIGN(const Digest library, file_digest(path_));
  all.add("nvrtc", library);
  // The builtins lie beside the library and are opened by it under their full version.
  const Path builtins =
      Path(path_).parent_path() / fmt::format("libnvrtc-builtins.so.{}.{}", major_, minor_);
  std::error_code error;
  if (std::filesystem::exists(builtins, error)) {
    OPFORGE_ASSIGN(const Digest digest, file_digest(builtins));
    all.add("builtins", digest);
  }
  return all.finish();
}

bool Nvrtc::knows_arch(int arch) const {
  return std::find(archs_.begin(), archs_.end(), arch) != archs_.end();
}
std::string Nvrtc::known_archs() const { return fmt::format("{}", fmt::join(archs_, ", ")); }

std::string Nvrtc::text_of(Program program, int (*size)(Program, std::size_t*),
                           int (*get)(Program, char*)) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (get(program, text.data()) != 0) return {};
  return text;
}

Result<NvrtcOutput> Nvrtc::compile(const NvrtcSource& source) const {
  std::vector<const char*> names, bytes, options;
  for (const auto& [name, text] : source.headers) {
    names.push_back(name.c_str());
    bytes.push_back(text.c_str());
  }
  for (const std::string& option : source.options) options.push_back(option.c_str());
  Program program = nullptr;
  // The program's name appears in messages only; a constant, so that it can never reach the code.
  if (const int r = entries_.create(&program, source.text.c_str(), "generated.cu",
                                    static_cast<int>(names.size()), bytes.data(), names.data());
      r != 0) {
    return fail(Code::kToolchain, fmt::format("nvrtcCreateProgram: {}", entries_.error(r)), kWhere);
  }
  const int r = entries_.compile(program, static_cast<int>(options.size()), options.data());
  NvrtcOutput output;
  output.log = text_of(program, entries_.log_size, entries_.log);
  while (!output.log.empty() && (output.log.back() == '\0' || output.log.back() == '\n'))
    output.log.pop_back();
  if (r == 0) {
    output.cubin = text_of(program, entries_.cubin_size, entries_.cubin);
    output.ptx = text_of(program, entries_.ptx_size, entries_.ptx);
    while (!output.ptx.empty() && output.ptx.back() == '\0') output.ptx.pop_back();
  }
  entries_.destroy(&program);
  if (r != 0) {
    constexpr std::size_t kMostLog = 4000;
    if (output.log.size() > kMostLog) output.log = output.log.substr(0, kMostLog) + "\n...";
    return fail(Code::kToolchain,
                fmt::format("NVRTC {}.{}: {}\n{}", major_, minor_, entries_.error(r), output.log),
                kWhere);
  }
  return output;
}

bool is_toolkit_header(std::string_view name) {
  return std::find(kToolkitHeaders.begin(), kToolkitHeaders.end(), name) != kToolkitHeaders.end();
}

Result<std::vector<std::pair<std::string, std::string>>> toolkit_headers(
    const std::vector<Path>& folders) {
  std::error_code error;
  for (const Path& folder : folders) {
    if (!std::filesystem::is_regular_file(folder / "cuda_fp16.h", error)) continue;
    std::vector<std::pair<std::string, std::string>> headers;
    for (const std::string_view name : kToolkitHeaders) {
      if (!std::filesystem::is_regular_file(folder / name, error)) continue;
      OPFORGE_ASSIGN(std::string bytes, read_file(folder / name));
      headers.emplace_back(name, std::move(bytes));
    }
    return headers;
  }
  std::vector<std::string> looked;
  for (const Path& folder : folders) looked.push_back(folder.string());
  return fail(Code::kToolchain,
              fmt::format("the CUDA headers (cuda_fp16.h) were not found in {}; {}",
                          join(looked, ", "), kHowToGetNvrtc),
              kWhere);
}

}  // namespace opforge::cu
