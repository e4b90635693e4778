// Every operator "<name>_backward" against numeric derivatives of <name>: both by their double
// references.
//
// By name: a tensor "d<t>" that the gradient reads is the weight of the forward output t in a sum
// L; a tensor "d<t>" that it writes is the derivative of L by the forward input t; every other
// tensor that it reads is the forward tensor of that name, after the call (of one that is updated:
// the new values).
#include <gtest/gtest.h>

#include <cmath>

#include "forge/catalogue.hpp"
#include "operator/expression.hpp"
#include "verify/inputs.hpp"

namespace opforge {
namespace {

constexpr std::string_view kSuffix = "_backward";

const Catalogue& catalogue() {
  static const Catalogue all = [] {
    auto loaded = load_catalogue();
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    return loaded ? std::move(*loaded) : Catalogue();
  }();
  return all;
}

std::vector<std::string> gradients() {
  std::vector<std::string> out;
  for (const Operator* op : catalogue().all()) {
    if (op->signature.name.ends_with(kSuffix)) out.push_back(op->signature.name);
  }
  return out;
}

using Tensors = std::map<std::string, ReferenceTensor, std::less<>>;

class Derivatives {
 public:
  Derivatives(const Operator& forward, const Operator& backward, ValueMap dims, ValueMap attributes)
      : forward_(forward),
        backward_(backward),
        dims_(std::move(dims)),
        attributes_(std::move(attributes)) {
    for (const AttrArg& attribute : forward.signature.attributes) {
      if (attribute.default_value)
        attributes_.try_emplace(attribute.name, *attribute.default_value);
    }
  }

  void check() {
    Random random(7);
    for (const TensorArg& arg : forward_.signature.tensors) {
      if (arg.access != Access::kWrite) inputs_[arg.name] = make(arg, random, 1);
    }
    for (const TensorArg& arg : backward_.signature.tensors) {
      if (arg.access == Access::kRead && is_weight(arg.name))
        weights_[arg.name] = make(arg, random, 1);
    }
    ASSERT_FALSE(weights_.empty()) << "no tensor d<output> is read";
    const Tensors gradient = analytic();
    int derivatives = 0;
    for (const TensorArg& arg : backward_.signature.tensors) {
      if (arg.access == Access::kRead) continue;
      ASSERT_TRUE(arg.name.starts_with("d") && inputs_.contains(arg.name.substr(1)))
          << arg.name << " is no derivative by a forward input";
      compare(arg.name.substr(1), gradient.at(arg.name));
      ++derivatives;
    }
    EXPECT_GT(derivatives, 0);
  }

 private:
  bool is_weight(const std::string& name) const {
    const TensorArg* output =
        name.starts_with("d") ? find_tensor(forward_.signature, name.substr(1)) : nullptr;
    return output != nullptr && output->access != Access::kRead;
  }

  ReferenceTensor make(const TensorArg& arg, Random& random, double scale) const {
    ReferenceTensor tensor;
    std::size_t count = 1;
    ValueMap symbols = dims_;
    for (const auto& [name, value] : attributes_) symbols.try_emplace(name, value);
    for (const std::string& dim : arg.dims) {
      const auto expression = Expression::parse(dim.starts_with("...") ? dim.substr(3) : dim);
      tensor.dims.push_back(*expression->evaluate_int(lookup_in(symbols)));
      count *= static_cast<std::size_t>(tensor.dims.back());
    }
    const bool integers = arg.dtype == "i64" || arg.dtype == "bool";
    for (std::size_t i = 0; i < count; ++i) {
      tensor.values.push_back(integers ? static_cast<double>(random.below(3))
                                       : scale * random.normal());
    }
    return tensor;
  }

  Tensors run(const Operator& op, Tensors inputs) const {
    ReferenceCall call;
    call.attributes = attributes_;
    call.dims = dims_;
    Random random(1);
    for (const TensorArg& arg : op.signature.tensors) {
      const auto found = inputs.find(arg.name);
      if (found != inputs.end() && arg.access != Access::kWrite) {
        call.tensors[arg.name] = found->second;
      } else {
        call.tensors[arg.name] = make(arg, random, NAN);
      }
    }
    op.reference(call);
    return std::move(call.tensors);
  }

  double total(const Tensors& inputs) const {
    const Tensors results = run(forward_, inputs);
    double sum = 0;
    for (const auto& [name, weight] : weights_) {
      const std::vector<double>& values = results.at(name.substr(1)).values;
      for (std::size_t i = 0; i < values.size(); ++i) sum += weight.values[i] * values[i];
    }
    return sum;
  }

  Tensors analytic() const {
    Tensors inputs = run(forward_, inputs_);
    for (const auto& [name, weight] : weights_) inputs[name] = weight;
    return run(backward_, std::move(inputs));
  }

  void compare(const std::string& input, const ReferenceTensor& gradient) const {
    ASSERT_EQ(gradient.values.size(), inputs_.at(input).values.size()) << input;
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      const double step = 1e-5;
      Tensors above = inputs_, below = inputs_;
      above[input].values[i] += step;
      below[input].values[i] -= step;
      const double numeric = (total(above) - total(below)) / (2 * step);
      ASSERT_NEAR(gradient.values[i], numeric, 1e-6 * (1 + std::fabs(numeric)))
          << "d" << input << ", element " << i;
    }
  }

  const Operator &forward_, &backward_;
  ValueMap dims_, attributes_;
  Tensors inputs_, weights_;
};

class Backward : public testing::TestWithParam<std::string> {};

TEST_P(Backward, IsTheDerivative) {
  const Operator& backward = *catalogue().find(GetParam());
  const std::string name = GetParam().substr(0, GetParam().size() - kSuffix.size());
  const Operator* forward = catalogue().find(name);
  ASSERT_NE(forward, nullptr) << "there is no operator " << name;
  ValueMap dims;
  std::int64_t extent = 5;
  for (const std::string& symbol : dim_symbols(backward.signature)) dims[symbol] = extent++;
  // With the defaults, with every choice of every attribute, and with the numbers of the cases.
  std::vector<ValueMap> settings{{}};
  for (const AttrArg& attribute : forward->signature.attributes) {
    for (const std::string& choice : attribute.choices)
      settings.push_back({{attribute.name, choice}});
    if (attribute.type == AttrType::kBool) settings.push_back({{attribute.name, std::int64_t{1}}});
  }
  for (const Case& each : backward.cases) {
    if (!each.attributes.empty()) settings.push_back(each.attributes);
  }
  for (const ValueMap& attributes : settings) {
    std::string text;
    for (const auto& [key, value] : attributes) text += key + "=" + to_string(value) + " ";
    SCOPED_TRACE(text);
    Derivatives(*forward, backward, dims, attributes).check();
  }
}

INSTANTIATE_TEST_SUITE_P(, Backward, testing::ValuesIn(gradients()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace opforge
