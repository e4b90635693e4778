// Evaluating the expressions of launch records and guards for one call on one device.
#pragma once

#include <string_view>
#include <unordered_map>

#include "operator/expression.hpp"
#include "operator/signature.hpp"
#include "target/target.hpp"

namespace opforge {

// The symbols of a call and a device; a variant's values are laid over them for each candidate. Not
// thread-safe; parsed expressions are kept per thread, so that texts met before cost a look-up.
class Evaluator {
 public:
  Evaluator(const Signature& signature, const BoundCall& call, const DeviceInfo& device);

  // Tunables and specialisations of the variant in hand; must outlive their use. Null: none.
  void use_values(const ValueMap* values) { values_ = values; }
  // Replace one symbol of the call, e.g. "x.align".
  void set(std::string_view symbol, Value value) {
    symbols_.add(symbol, std::move(value));
    known_.clear();
  }

  Result<Value> value(std::string_view text) const;
  Result<std::int64_t> integer(std::string_view text) const;
  // Remembered for texts that name no tunable: variants share most of their guards. `text` must
  // outlive this.
  Result<bool> truth(std::string_view text) const;
  const Value* find(std::string_view symbol) const;

 private:
  CallSymbols symbols_;
  const ValueMap* values_ = nullptr;
  mutable std::unordered_map<std::string_view, bool> known_;
};

// The expression of a text, parsed once per thread. The pointer is good until the next call on this
// thread.
Result<const Expression*> parse_cached(std::string_view text);

}  // namespace opforge
