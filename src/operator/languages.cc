#include "operator/languages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/files.hpp"

namespace opforge {
namespace {

constexpr LanguageRow kRows[] = {
#include "languages.inc"
    LanguageRow{"", 0, DeviceKind::kCpu}};

const LanguageRow* find_language(Languages languages, std::string_view backend) {
  const auto row = std::find_if(languages.begin(), languages.end(),
                                [&](const LanguageRow& r) { return r.backend == backend; });
  return row == languages.end() ? nullptr : &*row;
}

// An `asm` statement outside line comments: "asm" as a word, followed by '(' or "volatile".
bool has_assembly(std::string_view source) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = source.find("asm"); at != std::string_view::npos;
       at = source.find("asm", at + 3)) {
    std::string_view before = source.substr(0, at);
    const std::size_t line = before.rfind('\n');
    before = line == std::string_view::npos ? before : before.substr(line + 1);
    if (before.find("//") != std::string_view::npos) continue;
    while (before.ends_with('_')) before.remove_suffix(1);  // __asm__
    if (!before.empty() && word(before.back())) continue;
    std::string_view after = source.substr(at + 3);
    while (after.starts_with('_')) after.remove_prefix(1);
    while (!after.empty() && std::isspace(static_cast<unsigned char>(after[0])))
      after.remove_prefix(1);
    if (after.starts_with('(') || after.starts_with("volatile") ||
        after.starts_with("__volatile")) {
      return true;
    }
  }
  return false;
}

bool share_a_device(const KernelDecl& a, const KernelDecl& b, Languages languages) {
  const auto runs_on = [&](const KernelDecl& kernel, DeviceKind device) {
    if (kernel.requires_any.empty())
      return find_language(languages, kernel.backend)->device == device;
    return std::any_of(kernel.requires_any.begin(), kernel.requires_any.end(),
                       [&](const Requirement& r) { return r.device == device; });
  };
  for (const DeviceKind device :
       {DeviceKind::kCpu, DeviceKind::kCuda, DeviceKind::kOpenCl, DeviceKind::kHip}) {
    if (runs_on(a, device) && runs_on(b, device)) return true;
  }
  return false;
}

// A kernel in a higher language for the same device; null when there is none.
const KernelDecl* higher_kernel(const Operator& op, const KernelDecl& kernel, Languages languages) {
  const auto level = language_level(kernel, op.folder, languages);
  if (!level) return nullptr;
  for (const KernelDecl& other : op.kernels) {
    const auto other_level = language_level(other, op.folder, languages);
    if (other_level && *other_level > *level && share_a_device(kernel, other, languages))
      return &other;
  }
  return nullptr;
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

Status check_reason(const Operator& op, const KernelDecl& kernel, Languages languages) {
  const LowLevelReason& reason = kernel.reason;
  const auto wrong = [&](std::string_view why) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("{}: kernel {}: {}", op.signature.name, kernel.id, why),
                "operator/languages");
  };
  constexpr std::string_view kKinds =
      "give the missing primitive, or the performance gap with the benchmark that shows it";
  if (lower_case(reason.text).find("call shape") != std::string::npos) {
    return wrong(
        fmt::format("'{}' is no reason for a lower-level language: {}", reason.text, kKinds));
  }
  switch (reason.kind) {
    case ReasonKind::kNone:
      if (!reason.text.empty() || !reason.benchmark.empty()) {
        return wrong(fmt::format("the reason '{}' has no kind: {}", reason.text, kKinds));
      }
      if (const KernelDecl* higher = higher_kernel(op, kernel, languages)) {
        return wrong(
            fmt::format("it is in a lower-level language than {} ({}) for the same device "
                        "and states no reason: {}",
                        higher->id, higher->backend, kKinds));
      }
      return {};
    case ReasonKind::kMissingPrimitive:
      if (reason.text.empty()) return wrong("its reason must name the missing primitive");
      return {};
    case ReasonKind::kPerformanceGap:
      if (reason.text.empty()) return wrong("its reason must say what the performance gap is");
      if (reason.benchmark.empty()) {
        return wrong("a performance gap needs the file under bench/results that shows it");
      }
      if (Path(reason.benchmark).is_absolute() ||
          reason.benchmark.find("..") != std::string::npos) {
        return wrong(
            fmt::format("benchmark '{}' must be a path under bench/results", reason.benchmark));
      }
      return {};
  }
  return {};
}

}  // namespace

Languages all_languages() { return Languages(kRows).first(std::size(kRows) - 1); }

std::optional<int> language_level(const KernelDecl& kernel, std::string_view folder,
                                  Languages languages) {
  const LanguageRow* row = find_language(languages, kernel.backend);
  if (!row) return std::nullopt;
  if (!folder.empty()) {
    for (const std::string& source : kernel.sources) {
      const auto text = read_file(Path(folder) / source);
      if (text && has_assembly(*text)) return kAssemblyLevel;
    }
  }
  return row->level;
}

Status validate_reasons(const Operator& op, Languages languages) {
  for (const KernelDecl& kernel : op.kernels) OPFORGE_TRY(check_reason(op, kernel, languages));
  return {};
}

LowLevelShare& LowLevelShare::operator+=(const LowLevelShare& other) {
  kernels += other.kernels;
  lower += other.lower;
  missing_primitive += other.missing_primitive;
  performance_gap += other.performance_gap;
  return *this;
}

LowLevelShare low_level_share(const Operator& op, Languages languages) {
  LowLevelShare share;
  for (const KernelDecl& kernel : op.kernels) {
    if (!find_language(languages, kernel.backend)) continue;
    ++share.kernels;
    if (kernel.reason.kind == ReasonKind::kNone) continue;
    ++share.lower;
    ++(kernel.reason.kind == ReasonKind::kMissingPrimitive ? share.missing_primitive
                                                           : share.performance_gap);
  }
  return share;
}

}  // namespace opforge
