// Dispatch: from a call to a plan. One Runtime holds the sources of artifacts (packs), the forced
// backend and the plans.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "contract/precondition.hpp"
#include "runtime/plan.hpp"

namespace opforge {

enum class ProofPolicy : std::uint8_t { kDefault, kRequired, kOff };

struct CallOptions {
  std::optional<Contract> contract;  // none: the operator's default
  std::string backend;               // named in the call: strict
  ProofPolicy proof = ProofPolicy::kDefault;
  bool allow_ptx = false;
  CallerFacts facts;
  StreamHandle stream = nullptr;
};

// An attribute of a call by reference: building a list of them allocates nothing.
struct CallAttribute {
  enum class Kind : std::uint8_t { kInt, kFloat, kText };
  std::string_view name;
  Kind kind = Kind::kInt;
  std::int64_t integer = 0;
  double number = 0;
  std::string_view text;
};

// A candidate and why it was or was not taken; what `explain` prints.
struct Candidate {
  std::string source, kernel, variant, backend, target;
  Tier tier = Tier::kFast;
  bool taken = false;
  std::string reason;    // why not; for the taken one, why
  double median_us = 0;  // 0: not measured
};

struct Explanation {
  std::string op;
  Contract asked = Tier::kFast;
  std::vector<Candidate> candidates;
  std::string outcome;  // the chosen variant, or the error or reason
  std::string grade;
};

// A plan, or the value "cannot run here now".
using Prepared = std::variant<std::shared_ptr<const Plan>, Unavailable>;

class Runtime {
 public:
  Runtime();  // over every launcher that was built in
  // Over these launchers, which outlive it (tests bring their own).
  explicit Runtime(std::vector<Launcher*> launchers);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  void add_source(std::shared_ptr<ArtifactSource> source);  // earlier sources win ties
  std::vector<std::string> operators() const;
  Result<const Signature*> signature(std::string_view op);

  // Backend for the whole process of calls, best effort; "" returns to the ladder. Unknown names
  // list the valid ones. The initial value is OPFORGE_BACKEND, read once when the Runtime is made
  // (an unknown name is then reported by each call).
  Status set_backend(std::string_view name);

  // Dispatch without running. Errors: kInvalidArgument (the call is wrong), kNotFound (unknown
  // operator or backend, nearest names offered), kContractUnsatisfied, kBackendNotEligible,
  // kIncompatible, kCompilationSealed (a miss: the signature and the nearest entries), and what
  // loading the code gave.
  Result<Prepared> prepare(std::string_view op, std::span<const TensorView> tensors,
                           const ValueMap& attributes, const CallOptions& options);
  // Dispatch by signature (cached plan), take workspace from the {device, stream} pool, run, trace.
  // The hot call.
  Result<std::optional<Unavailable>> call(std::string_view op, std::span<const TensorView> tensors,
                                          const ValueMap& attributes, const CallOptions& options);
  // The same without a map: the order of attributes is free, each order is prepared once.
  Result<std::optional<Unavailable>> call_list(std::string_view op,
                                               std::span<const TensorView> tensors,
                                               std::span<const CallAttribute> attributes,
                                               const CallOptions& options);
  Explanation explain(std::string_view op, std::span<const TensorView> tensors,
                      const ValueMap& attributes, const CallOptions& options);
  // One digest over every choice for the calls that were prepared so far: two processes with one
  // pack print the same.
  Digest choices_digest() const;
  std::vector<std::string> backends()
      const;  // names that set_backend() and CallOptions take, sorted

 private:
  std::unique_ptr<class RuntimeState> state_;
};

}  // namespace opforge
