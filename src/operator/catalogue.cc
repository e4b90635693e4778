#include <fmt/format.h>

#include "base/text.hpp"
#include "operator/operator.hpp"

namespace opforge {

Status Catalogue::add(Operator op) {
  if (operators_.contains(op.signature.name)) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("operator {} is declared twice: rename one of them", op.signature.name),
                "operator/catalogue");
  }
  OPFORGE_TRY(validate(op));
  std::string name = op.signature.name;
  operators_.emplace(std::move(name), std::move(op));
  return {};
}

const Operator* Catalogue::find(std::string_view name) const {
  const auto found = operators_.find(name);
  return found == operators_.end() ? nullptr : &found->second;
}

Result<const Operator*> Catalogue::get(std::string_view name) const {
  if (const Operator* op = find(name)) return op;
  std::vector<std::string> known;
  for (const auto& [key, op] : operators_) known.push_back(key);
  const std::string offer =
      known.empty() ? std::string("there are no operators here")
                    : fmt::format("did you mean {}?", join(nearest_names(name, known), ", "));
  return fail(Code::kNotFound, fmt::format("there is no operator '{}'; {}", name, offer),
              "operator/catalogue");
}

std::vector<const Operator*> Catalogue::all() const {
  std::vector<const Operator*> operators;
  for (const auto& [name, op] : operators_) operators.push_back(&op);
  return operators;
}

}  // namespace opforge
