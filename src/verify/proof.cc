#include "verify/proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>

#include "operator/expression.hpp"

namespace opforge {
namespace {

bool uses_device(const Expression& expression) {
  return std::any_of(expression.symbols().begin(), expression.symbols().end(),
                     [](const std::string& symbol) { return symbol.starts_with("device."); });
}

// A batch dim as it is, in a product or sum, is a bound or an address. Dividing or comparing it
// makes a choice of it.
bool chooses_by(const Expression& expression, const std::vector<std::string>& batch) {
  const bool mentions = std::any_of(batch.begin(), batch.end(), [&](const std::string& symbol) {
    return std::find(expression.symbols().begin(), expression.symbols().end(), symbol) !=
           expression.symbols().end();
  });
  return mentions && expression.text().find_first_of("/%?<>=(,") != std::string::npos;
}

bool mentions_any(const Expression& expression, const std::vector<std::string>& batch) {
  return std::any_of(batch.begin(), batch.end(), [&](const std::string& symbol) {
    return std::find(expression.symbols().begin(), expression.symbols().end(), symbol) !=
           expression.symbols().end();
  });
}

Status gate(bool wrong, std::string_view what, std::string_view text, std::string_view why) {
  if (!wrong) return {};
  return fail(Code::kContractUnsatisfied, fmt::format("DETERMINISTIC: {} '{}' {}", what, text, why),
              "verify/gates");
}

// The value of a pointer binding is "name + expr": only what follows the plus is an expression.
std::string expression_part(const Binding& binding) {
  if (binding.type != ParamType::kPtr) return binding.value;
  const std::size_t plus = binding.value.find('+');
  return plus == std::string::npos ? std::string() : binding.value.substr(plus + 1);
}

Status gate_step(const LaunchStep& step, bool in_chunks, const std::vector<std::string>& batch) {
  const auto check = [&](const std::string& text, std::string_view what, bool batch_allowed,
                         bool arithmetic_allowed) -> Status {
    if (text.empty()) return {};
    const auto expression = Expression::parse(text);
    if (!expression) return fail(expression.error());
    OPFORGE_TRY(gate(uses_device(*expression), what, text, "depends on a property of the device"));
    if (!batch_allowed)
      OPFORGE_TRY(gate(mentions_any(*expression, batch), what, text,
                       "depends on a dim that is not reduced"));
    if (!arithmetic_allowed)
      OPFORGE_TRY(gate(chooses_by(*expression, batch), what, text,
                       "makes a choice by a dim that is not reduced"));
    return {};
  };
  for (const std::string& text : step.grid) OPFORGE_TRY(check(text, "grid", true, true));
  // Code that runs in chunks of items has its chunk size there: trials show that it changes
  // nothing.
  for (const std::string& text : step.block) {
    OPFORGE_TRY(check(text, "block", in_chunks, in_chunks));
  }
  for (const std::string& text : step.cluster) OPFORGE_TRY(check(text, "cluster", false, false));
  OPFORGE_TRY(check(step.shared_bytes, "shared memory", false, false));
  for (const Binding& binding : step.bindings) {
    if (binding.type == ParamType::kTensorMap) continue;
    OPFORGE_TRY(check(expression_part(binding), "parameter " + binding.name, true,
                      binding.type == ParamType::kPtr));
    for (const auto& field : binding.fields)
      OPFORGE_TRY(
          check(field.value, "field of " + binding.name, true, field.type == ParamType::kPtr));
  }
  return {};
}

// Source without comments, so that a word in one is not taken for code.
std::string without_comments(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      while (i < text.size() && text[i] != '\n') ++i;
      out += '\n';
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t end = text.find("*/", i + 2);
      i = end == std::string_view::npos ? text.size() : end + 1;
      out += ' ';
    } else {
      out += text[i];
    }
  }
  return out;
}

Status gate_atomics(std::string_view where, std::string_view text) {
  for (const std::string_view word :
       {"atomicAdd", "atomicSub", "atomicCAS", "atomicExch", "atomic_ref", "std::atomic",
        "red.global", "red.relaxed", "atom.global", "atom.add", "red.add", "__atomic_",
        "__sync_"}) {
    if (text.find(word) != std::string_view::npos) {
      return fail(
          Code::kContractUnsatisfied,
          fmt::format("DETERMINISTIC: {} uses {}: sums whose order is not fixed give other bits",
                      where, word),
          "verify/gates");
    }
  }
  return {};
}

Status gate_code(const Operator& op, const Artifact& artifact, std::string_view code_bytes) {
  if (artifact.kind == CodeKind::kPtx) OPFORGE_TRY(gate_atomics("the PTX", code_bytes));
  for (const KernelDecl& kernel : op.kernels) {
    if (kernel.id != artifact.variant.kernel) continue;
    for (const std::string& source : kernel.sources) {
      const auto text = read_file(Path(op.folder) / source);
      if (text) OPFORGE_TRY(gate_atomics(source, without_comments(*text)));
    }
  }
  return {};
}

}  // namespace

Status deterministic_gates(const Operator& op, const Artifact& artifact,
                           std::string_view code_bytes) {
  const std::vector<std::string> batch = batch_symbols(op.signature);
  for (const LaunchStep& step : artifact.launch.steps)
    OPFORGE_TRY(gate_step(step, artifact.kind == CodeKind::kElfShared, batch));
  for (const Artifact::Default& tunable : artifact.defaults) {
    if (!tunable.changes_bits) continue;
    const auto expression = Expression::parse(tunable.initial);
    if (!expression) return fail(expression.error());
    OPFORGE_TRY(gate(uses_device(*expression), "tunable " + tunable.name, tunable.initial,
                     "depends on a property of the device"));
    OPFORGE_TRY(gate(mentions_any(*expression, batch), "tunable " + tunable.name, tunable.initial,
                     "depends on a dim that is not reduced"));
  }
  return gate_code(op, artifact, code_bytes);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Result<Proof> prove(const Operator& op, const BuiltCode& code, const DeviceInfo& device,
                    SuiteOptions options, std::string date) {
  const Artifact& artifact = code.artifact;
  Proof out;
  Attestation& attestation = out.attestation;
  attestation.code_digest = artifact.code_digest;
  attestation.proof_key = artifact.proof_key;
  attestation.op = op.signature.name;
  attestation.variant = to_string(artifact.variant);
  attestation.device_model = device.model;
  attestation.driver_version = artifact.kind == CodeKind::kPtx ? device.driver_version : 0;
  attestation.suite_version = kSuiteVersion;
  attestation.date = std::move(date);
  bool first = true;
  for (int tier = static_cast<int>(artifact.variant.tier); tier >= 0; --tier) {
    options.tier = static_cast<Tier>(tier);
    OPFORGE_ASSIGN(SuiteReport report, run_suites(op, code, device, options));
    attestation.tier = options.tier;
    attestation.passed = report.ok();
    attestation.cases = report.values_passed();
    attestation.worst_error_over_bound =
        std::isfinite(report.worst_share) ? report.worst_share : 1e300;
    if (first) out.report = std::move(report);
    first = false;
    if (attestation.passed) break;
  }
  return out;
}

}  // namespace opforge
