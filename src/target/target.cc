#include "target/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace opforge {
namespace {

// "90" or "90a" after a prefix; two digits at least, so that "sm_9" is not taken for capability
// 0.9.
bool parse_arch(std::string_view text, Target& target) {
  if (text.ends_with('a')) {
    target.arch_specific = true;
    text.remove_suffix(1);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target.arch);
  return error == std::errc{} && end == text.data() + text.size() && text.size() >= 2 &&
         text.size() <= 3 && text.front() >= '1' && text.front() <= '9';
}

// "942", "90a", "1100" after "gfx": vendor digits, the last of which is hexadecimal.
bool parse_gfx(std::string_view text, Target& target) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), target.arch, 16);
  return error == std::errc{} && end == text.data() + text.size() && text.size() >= 3 &&
         text.size() <= 4 && text.front() >= '1' && text.front() <= '9' &&
         text.find_first_of("ABCDEF") == std::string_view::npos;
}

std::string capability(int arch) {
  return std::to_string(arch / 10) + "." + std::to_string(arch % 10);
}

std::string level_name(int level) {
  return level <= 1 ? "x86-64" : "x86-64-v" + std::to_string(level);
}

std::string device_text(const DeviceInfo& device) {
  std::string what(device_kind_name(device.device.kind));
  if (device.device.kind == DeviceKind::kCuda)
    what = "compute capability " + capability(device.arch);
  if (device.device.kind == DeviceKind::kHip) what = fmt::format("gfx{:x}", device.arch);
  if (device.device.kind == DeviceKind::kCpu) what = "a CPU of level " + level_name(device.arch);
  return device.model.empty() ? what : what + " (" + device.model + ")";
}

constexpr std::string_view kOpenCl = "opencl:";

// The platform of an OpenCL target or device: "pocl" of "opencl:pocl" and of "pocl: AMD EPYC".
std::string_view platform_of(const Target& target) {
  return std::string_view(target.name).substr(kOpenCl.size());
}
std::string_view platform_of(const DeviceInfo& device) {
  const std::string_view model = device.model;
  return model.substr(0, std::min(model.find(": "), model.size()));
}

bool is_platform(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

Support refuse(const Target& target, const DeviceInfo& device, std::string_view rule) {
  return Support::no("code for " + target.name + " does not run on " + device_text(device) + ": " +
                     std::string(rule));
}

Support runs_on_cuda(const Target& target, const DeviceInfo& device, bool allow_ptx) {
  if (target.ptx) {
    if (!allow_ptx) {
      return refuse(
          target, device,
          "it is PTX, which the driver would have to compile, and that is not allowed here");
    }
    if (target.arch_specific ? device.arch == target.arch : device.arch >= target.arch)
      return Support::yes();
    return refuse(target, device,
                  target.arch_specific ? "architecture-specific PTX needs exactly that capability"
                                       : "PTX needs its own capability or a later one");
  }
  if (target.arch_specific) {
    if (device.arch == target.arch) return Support::yes();
    return refuse(target, device, "an 'a' suffix runs on exactly that capability");
  }
  if (device.arch / 10 == target.arch / 10 && device.arch % 10 >= target.arch % 10)
    return Support::yes();
  return refuse(target, device,
                "a cubin runs on the same major and an equal or higher minor capability");
}

}  // namespace

Result<Target> parse_target(std::string_view name) {
  Target target;
  target.name = std::string(name);
  constexpr std::string_view kCpu = "x86-64", kCubin = "sm_", kPtx = "compute_", kGfx = "gfx";
  if (name == kCpu) {
    target.arch = 1;
    return target;
  }
  if (name.starts_with(kCpu) && name.size() == kCpu.size() + 3 &&
      name.substr(kCpu.size(), 2) == "-v" && name.back() >= '2' && name.back() <= '4') {
    target.arch = name.back() - '0';
    return target;
  }
  if (name.starts_with(kGfx) && parse_gfx(name.substr(kGfx.size()), target)) {
    target.device = DeviceKind::kHip;
    return target;
  }
  if (name.starts_with(kOpenCl) && is_platform(name.substr(kOpenCl.size()))) {
    target.device = DeviceKind::kOpenCl;
    return target;
  }
  target.device = DeviceKind::kCuda;
  if (name.starts_with(kCubin) && parse_arch(name.substr(kCubin.size()), target)) return target;
  target.ptx = true;
  if (name.starts_with(kPtx) && parse_arch(name.substr(kPtx.size()), target)) return target;
  return fail(Code::kInvalidArgument,
              "unknown target '" + std::string(name) +
                  "'; the forms are x86-64, x86-64-v2, x86-64-v3, x86-64-v4, sm_<arch>[a] (as "
                  "sm_80, sm_90a), "
                  "compute_<arch>[a] (PTX, as compute_80), gfx<arch> (as gfx942) and "
                  "opencl:<platform> (as opencl:pocl)",
              "target");
}

Support runs_on(const Target& target, const DeviceInfo& device, bool allow_ptx) {
  if (target.device != device.device.kind) {
    return refuse(target, device, "it is code for another kind of device");
  }
  if (target.device == DeviceKind::kCuda) return runs_on_cuda(target, device, allow_ptx);
  if (target.device == DeviceKind::kHip) {
    return device.arch == target.arch
               ? Support::yes()
               : refuse(target, device, "code objects run on exactly their own architecture");
  }
  if (target.device == DeviceKind::kOpenCl) {
    if (platform_of(target) == platform_of(device)) return Support::yes();
    return refuse(target, device, "OpenCL code runs on devices of its own platform");
  }
  if (device.arch >= target.arch) return Support::yes();
  return refuse(target, device, "CPU code runs on its own level or a higher one");
}

std::vector<Target> native_targets(const DeviceInfo& device) {
  std::vector<std::string> names;
  if (device.device.kind == DeviceKind::kCuda) {
    const std::string number = std::to_string(device.arch);
    if (device.arch >= 90) names.push_back("sm_" + number + "a");
    names.push_back("sm_" + number);
  } else if (device.device.kind == DeviceKind::kHip) {
    names.push_back(fmt::format("gfx{:x}", device.arch));
  } else if (device.device.kind == DeviceKind::kCpu) {
    for (int level = device.arch; level >= 2; --level)
      names.push_back("x86-64-v" + std::to_string(level));
    names.emplace_back("x86-64");
  } else if (device.device.kind == DeviceKind::kOpenCl) {
    names.push_back(std::string(kOpenCl) + std::string(platform_of(device)));
  }
  std::vector<Target> targets;
  for (const std::string& name : names) {
    if (auto target = parse_target(name)) targets.push_back(std::move(*target));
  }
  return targets;
}

}  // namespace opforge
