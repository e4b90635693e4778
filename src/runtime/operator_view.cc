#include "runtime/operator_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace opforge {
namespace {

// Names within the same group are likelier meant than a short edit distance across groups, so the
// last part counts too: "rms_norm" finds "norm.rms_norm".
std::vector<std::string> near(std::string_view op, const std::vector<std::string>& known) {
  std::vector<std::string> matches;
  for (const std::string& name : known) {
    const auto dot = name.rfind('.');
    if (dot != std::string::npos && std::string_view(name).substr(dot + 1) == op)
      matches.push_back(name);
  }
  for (std::string& name : nearest_names(op, known)) {
    if (std::find(matches.begin(), matches.end(), name) == matches.end())
      matches.push_back(std::move(name));
  }
  return matches;
}

Error unknown_operator(std::string_view op,
                       const std::vector<std::shared_ptr<ArtifactSource>>& sources) {
  std::vector<std::string> known;
  for (const auto& source : sources) {
    for (std::string& name : source->operators()) known.push_back(std::move(name));
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::string offer = "no pack is open: open one first";
  if (!known.empty()) offer = fmt::format("nearest: {}", join(near(op, known), ", "));
  return Error{Code::kNotFound, fmt::format("unknown operator '{}'; {}", op, offer), "runtime"};
}

}  // namespace

std::string signature_difference(const Signature& a, const Signature& b) {
  if (a.tensors.size() != b.tensors.size()) {
    return fmt::format("{} tensors, not {}", b.tensors.size(), a.tensors.size());
  }
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorArg &x = a.tensors[i], &y = b.tensors[i];
    if (x.name != y.name) return fmt::format("tensor {} is '{}', not '{}'", i, y.name, x.name);
    if (x.dims != y.dims || x.dtype != y.dtype || x.access != y.access ||
        x.optional != y.optional || x.may_alias != y.may_alias) {
      return fmt::format("tensor '{}' is declared differently", x.name);
    }
  }
  if (a.attributes.size() != b.attributes.size()) {
    return fmt::format("{} attributes, not {}", b.attributes.size(), a.attributes.size());
  }
  for (std::size_t i = 0; i < a.attributes.size(); ++i) {
    const AttrArg &x = a.attributes[i], &y = b.attributes[i];
    if (x.name != y.name || x.type != y.type || x.default_value != y.default_value ||
        x.choices != y.choices || x.baked != y.baked) {
      return fmt::format("attribute '{}' is declared differently", y.name);
    }
  }
  if (a.reduced_dims != b.reduced_dims) return "the reduced dims differ";
  return {};
}

Result<std::shared_ptr<const OperatorView>> OperatorView::gather(
    std::string_view op, const std::vector<std::shared_ptr<ArtifactSource>>& sources) {
  auto view = std::make_shared<OperatorView>();
  for (const auto& source : sources) {
    auto section = source->section(op);
    if (!section) {
      if (section.error().code == Code::kNotFound) continue;
      return fail(std::move(section.error()));
    }
    view->sections.push_back({source, std::move(*section)});
  }
  if (view->sections.empty()) return fail(unknown_operator(op, sources));
  for (std::size_t i = 0; i < view->sections.size(); ++i) {
    const OperatorSection& section = *view->sections[i].section;
    std::string foreign = signature_difference(view->signature(), section.signature);
    if (!foreign.empty()) {
      foreign =
          fmt::format("{} declares {} differently from {}: {}", view->sections[i].source->name(),
                      op, view->sections[0].source->name(), foreign);
    }
    for (const Artifact& artifact : section.artifacts) {
      OPFORGE_ASSIGN(Target target, parse_target(artifact.variant.target));
      view->artifacts.push_back({&artifact, i, std::move(target), {}, foreign});
    }
  }
  std::multimap<Digest, const Attestation*> proofs;
  for (const Section& section : view->sections) {
    for (const Attestation& proof : section.section->attestations) {
      if (proof.passed) proofs.emplace(proof.code_digest, &proof);
    }
  }
  for (std::size_t i = 0; i < view->artifacts.size(); ++i) {
    OfferedArtifact& offered = view->artifacts[i];
    view->by_code_key.emplace(offered.artifact->code_key, i);
    const auto [first, last] = proofs.equal_range(offered.artifact->code_digest);
    for (auto it = first; it != last; ++it) {
      if (it->second->proof_key == offered.artifact->proof_key)
        offered.proofs.push_back(it->second);
    }
  }
  return std::shared_ptr<const OperatorView>(std::move(view));
}

}  // namespace opforge
