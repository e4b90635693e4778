// Enumeration of variants: tunables, specialisations, dtypes and baked attributes of a kernel.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "forge/compile.hpp"
#include "operator/infer.hpp"
#include "toolchain/reference_kernel.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "forge/variants";

// A reference takes any dtypes and all attributes when it is called.
bool is_reference(const KernelDecl& kernel) { return kernel.backend == kReferenceBackend; }

bool meets(const std::vector<Requirement>& requirements, const Target& target) {
  if (requirements.empty()) return true;
  return std::any_of(requirements.begin(), requirements.end(), [&](const Requirement& one) {
    return one.device == target.device && (one.min_arch == 0 || target.arch >= one.min_arch) &&
           (one.max_arch == 0 || target.arch <= one.max_arch);
  });
}

// One way of walking through the tunables: which values each takes, given those before it.
class Enumerator {
 public:
  using Choose = Result<std::vector<std::int64_t>> (*)(const Enumerator&, const Tunable&,
                                                       const CallSymbols&);

  Enumerator(const Operator& op, const KernelDecl& kernel) : op_(op), kernel_(kernel) {}

  Result<std::vector<Variant>> run(const ShapeRequest& shape, const Target& target, Choose choose) {
    choose_ = choose;
    first_.op = op_.signature.name;
    first_.kernel = kernel_.id;
    first_.backend = kernel_.backend;
    first_.tier = kernel_.tier;
    first_.target = target.name;
    if (is_reference(kernel_)) return std::vector<Variant>{first_};
    first_.dtypes = shape.dtypes;
    OPFORGE_ASSIGN(ValueMap attributes, bind_attributes(op_.signature, shape.attributes));
    for (const AttrArg& attribute : op_.signature.attributes) {
      if (attribute.baked) first_.baked[attribute.name] = attributes.at(attribute.name);
    }
    BoundCall call;
    call.dtypes = shape.dtypes;
    call.dims = shape.dims;
    call.attributes = attributes;
    OPFORGE_ASSIGN(call.tensors, placeholder_tensors(op_.signature, shape.dims, shape.dtypes,
                                                     attributes, {target.device, 0}));
    CallSymbols symbols(op_.signature, call);
    OPFORGE_TRY(walk(0, symbols, first_.values));
    return std::move(found_);
  }

  bool deterministic() const { return kernel_.tier == Tier::kDeterministic; }

  // Whether `initial` gives the same value at every shape: then no other is ever asked for.
  bool depends_on_dims(const Tunable& tunable) const {
    const auto parsed = Expression::parse(tunable.initial);
    if (!parsed) return true;
    const std::vector<std::string> dims = dim_symbols(op_.signature);
    return std::any_of(
        parsed->symbols().begin(), parsed->symbols().end(), [&](const std::string& symbol) {
          if (symbol.ends_with(".itemsize") || symbol.ends_with(".dtype")) return false;
          return symbol.find('.') != std::string::npos ||
                 std::find(dims.begin(), dims.end(), symbol) != dims.end() ||
                 std::any_of(kernel_.tunables.begin(), kernel_.tunables.end(),
                             [&](const Tunable& other) { return other.name == symbol; });
        });
  }

 private:
  Status walk(std::size_t index, CallSymbols& symbols, ValueMap& values) {
    if (index == kernel_.tunables.size()) return keep(symbols, values);
    const Tunable& tunable = kernel_.tunables[index];
    OPFORGE_ASSIGN(std::vector<std::int64_t> choices, choose_(*this, tunable, symbols));
    for (const std::int64_t choice : choices) {
      values[tunable.name] = choice;
      symbols.add(tunable.name, choice);
      OPFORGE_TRY(walk(index + 1, symbols, values));
    }
    return {};
  }

  Status keep(const CallSymbols& symbols, const ValueMap& values) {
    for (const std::string& constraint : kernel_.constraints) {
      OPFORGE_ASSIGN(Expression expression, Expression::parse(constraint));
      OPFORGE_ASSIGN(bool holds, expression.evaluate_bool(symbols.lookup()));
      if (!holds) return {};
    }
    Variant variant = first_;
    variant.values = values;
    found_.push_back(std::move(variant));
    return {};
  }

  const Operator& op_;
  const KernelDecl& kernel_;
  Choose choose_ = nullptr;
  Variant first_;
  std::vector<Variant> found_;
};

Result<std::vector<std::int64_t>> initial_only(const Tunable& tunable, const CallSymbols& symbols) {
  auto value = initial_value(tunable, symbols.lookup());
  if (!value) {
    return fail(value.error().code,
                fmt::format("the default of tunable {}: {}", tunable.name, value.error().message),
                kWhere);
  }
  return std::vector<std::int64_t>{*value};
}

Result<std::vector<std::int64_t>> default_choices(const Enumerator& all, const Tunable& tunable,
                                                  const CallSymbols& symbols) {
  if (tunable.specialisation) return tunable.values;
  if (all.deterministic() && tunable.changes_bits && all.depends_on_dims(tunable)) {
    return tunable.values;
  }
  return initial_only(tunable, symbols);
}

Result<std::vector<std::int64_t>> all_choices(const Enumerator& all, const Tunable& tunable,
                                              const CallSymbols& symbols) {
  if (all.deterministic() && tunable.changes_bits) return initial_only(tunable, symbols);
  return tunable.values;
}

Result<std::vector<Variant>> enumerate(const Operator& op, const KernelDecl& kernel,
                                       const ShapeRequest& shape, const Target& target,
                                       Enumerator::Choose choose) {
  if (!compiles_for(op, kernel, shape.dtypes, target)) return std::vector<Variant>{};
  auto variants = Enumerator(op, kernel).run(shape, target, choose);
  if (!variants) {
    Error error = variants.error();
    error.message = fmt::format("{}, kernel {}: {}", op.signature.name, kernel.id, error.message);
    return fail(std::move(error));
  }
  return variants;
}

}  // namespace

std::vector<Variant> stratified_sample(std::vector<Variant> space, std::size_t most) {
  if (most == 0 || space.size() <= most) return space;
  std::vector<std::pair<Digest, const Variant*>> order;
  for (const Variant& variant : space) order.emplace_back(sha256(to_string(variant)), &variant);
  std::sort(order.begin(), order.end());
  std::set<std::string> values;
  std::set<const Variant*> taken;
  std::vector<Variant> sample;
  for (const bool only_new : {true, false}) {
    for (const auto& [digest, variant] : order) {
      if (sample.size() == most) return sample;
      bool brings = false;
      for (const auto& [name, value] : variant->values)
        brings |= values.insert(name + "=" + to_string(value)).second;
      if ((only_new && !brings) || !taken.insert(variant).second) continue;
      sample.push_back(*variant);
    }
  }
  return sample;
}

Support compiles_for(const Operator& op, const KernelDecl& kernel, const DTypeCombo& dtypes,
                     const Target& target) {
  if (find_toolchain(kernel.backend, target) == nullptr) {
    return Support::no(
        fmt::format("backend {} does not compile for {}", kernel.backend, target.name));
  }
  if (!meets(kernel.requires_any, target)) {
    return Support::no(fmt::format("kernel {} does not run on {}", kernel.id, target.name));
  }
  if (is_reference(kernel)) return Support::yes();
  const auto& offered = kernel.dtypes.empty() ? op.signature.dtypes : kernel.dtypes;
  if (std::find(offered.begin(), offered.end(), dtypes) == offered.end()) {
    return Support::no(fmt::format("kernel {} has no {}", kernel.id, to_string(dtypes)));
  }
  return Support::yes();
}

Result<std::vector<Variant>> default_variants(const Operator& op, const KernelDecl& kernel,
                                              const ShapeRequest& shape, const Target& target) {
  return enumerate(op, kernel, shape, target, &default_choices);
}

Result<std::vector<Variant>> variant_space(const Operator& op, const KernelDecl& kernel,
                                           const ShapeRequest& shape, const Target& target) {
  return enumerate(op, kernel, shape, target, &all_choices);
}

}  // namespace opforge
