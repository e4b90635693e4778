#include "runtime/evaluate.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace opforge {
namespace {

// Texts come from packs, which are bounded, but a service may open many over its life.
constexpr std::size_t kMaxCachedExpressions = 8192;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

}  // namespace

Result<const Expression*> parse_cached(std::string_view text) {
  thread_local std::unordered_map<std::string, Expression, TextHash, std::equal_to<>> parsed;
  if (auto found = parsed.find(text); found != parsed.end()) return &found->second;
  OPFORGE_ASSIGN(Expression expression, Expression::parse(text));
  if (parsed.size() >= kMaxCachedExpressions) parsed.clear();
  return &parsed.emplace(std::string(text), std::move(expression)).first->second;
}

Evaluator::Evaluator(const Signature& signature, const BoundCall& call, const DeviceInfo& device)
    : symbols_(signature, call) {
  symbols_.add("device.sm_count", device.sm_count);
  symbols_.add("device.shared_bytes", device.shared_bytes);
  symbols_.add("device.warp_size", device.warp_size);
}

const Value* Evaluator::find(std::string_view symbol) const {
  if (values_ != nullptr) {
    if (const auto found = values_->find(symbol); found != values_->end()) return &found->second;
  }
  return symbols_.find(symbol);
}

Result<Value> Evaluator::value(std::string_view text) const {
  OPFORGE_ASSIGN(const Expression* expression, parse_cached(text));
  return expression->evaluate([this](std::string_view symbol) { return find(symbol); });
}

Result<std::int64_t> Evaluator::integer(std::string_view text) const {
  OPFORGE_ASSIGN(const Expression* expression, parse_cached(text));
  return expression->evaluate_int([this](std::string_view symbol) { return find(symbol); });
}

Result<bool> Evaluator::truth(std::string_view text) const {
  if (const auto found = known_.find(text); found != known_.end()) return found->second;
  OPFORGE_ASSIGN(const Expression* expression, parse_cached(text));
  auto holds = expression->evaluate_bool([this](std::string_view symbol) { return find(symbol); });
  if (!holds) return holds;
  const auto& symbols = expression->symbols();
  const bool of_variant = values_ != nullptr && std::any_of(symbols.begin(), symbols.end(),
                                                            [this](const std::string& symbol) {
                                                              return values_->contains(symbol);
                                                            });
  if (!of_variant) known_.emplace(text, *holds);
  return holds;
}

}  // namespace opforge
