// The declaration of an operator: data only, except for the reference and the case lists.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "contract/tolerance.hpp"
#include "operator/kernel.hpp"
#include "operator/reference.hpp"
#include "operator/signature.hpp"

namespace opforge {

// One shape that tests, benchmarks and ahead-of-time builds share.
enum class CaseUse : std::uint8_t { kTest = 1, kBuild = 2, kBench = 4 };
struct Case {
  std::string name;     // "llm-16384x4096"
  ValueMap dims;        // symbol -> extent
  ValueMap attributes;  // those that differ from the defaults
  unsigned uses = 7;    // CaseUse bits
};

// Bytes and floating-point operations that any implementation must move and do, as expressions over
// dims, dtype sizes (T.itemsize for a dtype variable) and attributes.
struct WorkModel {
  std::string bytes_read, bytes_written;
  std::string flops;
};

// How ordinary inputs of a tensor are drawn for verification and timing. Hostile inputs are the
// suite's own.
enum class Fill : std::uint8_t { kNormal, kUniform01, kPositive };

struct Operator {
  Signature signature;
  std::string description;            // one line
  std::string formula;                // plain text, e.g. "y = x / sqrt(mean(x^2) + eps) * w"
  bool has_default_contract = false;  // set by default_contract(); validate() wants it
  std::vector<Tier> other_tiers;      // tiers offered beside the default contract
  Tolerances tolerances;
  WorkModel work;
  ReferenceFunction reference = nullptr;
  std::string reference_source;  // "reference.cc": part of the proof key, and built into packs
  std::vector<KernelDecl> kernels;
  std::vector<Case> cases;
  std::map<std::string, Fill> fills;                  // by tensor; default kNormal
  std::map<std::string, std::string> data_contracts;  // backend -> one line on the data it wants
  std::string folder;  // absolute path of the operator's folder (sources live there)

  Operator& default_contract(Contract contract) {
    signature.default_contract = contract;
    has_default_contract = true;
    return *this;
  }
};

// Every declaration error by name: no default contract, no reference, empty or malformed or
// duplicate names, a repeated kernel id, the default tier given again among the other tiers, a bad
// alignment, an expression that does not parse or uses an unknown symbol, a binding to a missing
// argument, a DETERMINISTIC kernel whose bits depend on more than the reduced dims, two
// DETERMINISTIC kernels of one backend, a lower-level kernel without a reason, ... Fills
// signature.deterministic_kernel.
Status validate(Operator& op);

// All operators of this process: the built-in ones (generated table) and those of plug-ins.
class Catalogue {
 public:
  Status add(Operator op);  // validates; kInvalidDeclaration for a duplicate name
  const Operator* find(std::string_view name) const;
  Result<const Operator*> get(std::string_view name) const;  // kNotFound offering the nearest names
  std::vector<const Operator*> all() const;                  // by name

 private:
  std::map<std::string, Operator, std::less<>> operators_;
};

}  // namespace opforge
