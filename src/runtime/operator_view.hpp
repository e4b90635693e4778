// All that the runtime's sources know of one operator, side by side. Immutable.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "artifact/artifact.hpp"

namespace opforge {

// The backend of double-precision references: always accepted as proved, and the last rung of
// dispatch.
inline constexpr std::string_view kReferenceBackend = "reference";

// One artifact of one source.
struct OfferedArtifact {
  const Artifact* artifact = nullptr;
  std::size_t section = 0;  // index in OperatorView::sections; earlier sources win ties
  Target target;
  std::vector<const Attestation*> proofs;  // of this very code and meaning, from any source
  std::string
      foreign;  // why it can never serve: its section declares the operator differently; else empty
};

struct OperatorView {
  struct Section {
    std::shared_ptr<ArtifactSource> source;
    std::shared_ptr<const OperatorSection> section;
  };
  std::vector<Section> sections;  // at least one
  std::vector<OfferedArtifact> artifacts;
  std::multimap<Digest, std::size_t> by_code_key;  // index in `artifacts`

  const Signature& signature() const { return sections.front().section->signature; }

  // From every source that has the operator. kNotFound when none has (nearest names offered), else
  // the first error.
  static Result<std::shared_ptr<const OperatorView>> gather(
      std::string_view op, const std::vector<std::shared_ptr<ArtifactSource>>& sources);
};

// Do two declarations take the same calls? The difference as text, or empty.
std::string signature_difference(const Signature& a, const Signature& b);

}  // namespace opforge
