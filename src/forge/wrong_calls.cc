// Wrong calls of an operator, from its declaration. Nothing is launched: binding a call must refuse
// them.
#include <fmt/format.h>

#include <functional>

#include "forge/testkit.hpp"
#include "operator/expression.hpp"

namespace opforge {
namespace {

constexpr std::int64_t kExtent = 6;

// A right call to start from; memory that only its addresses are used of.
struct Call {
  std::vector<TensorView> tensors;
  ValueMap attributes;
  std::vector<std::vector<double>> memory;
};

class WrongCalls {
 public:
  explicit WrongCalls(const Operator& op) : signature_(op.signature) {}

  std::vector<ApiErrorResult> run() {
    const Call right = make();
    if (auto bound = bind_call(signature_, right.tensors, right.attributes); !bound) {
      results_.push_back({"a right call", false, bound.error().message});
      return std::move(results_);
    }
    counts();
    for (std::size_t i = 0; i < signature_.tensors.size(); ++i) tensor(i);
    for (const AttrArg& attribute : signature_.attributes) this->attribute(attribute);
    expect("an attribute that does not exist", "no_such_attribute",
           [](Call& call) { call.attributes["no_such_attribute"] = 1.0; });
    return std::move(results_);
  }

 private:
  Call make() const {
    Call call;
    ValueMap dims;
    for (const std::string& symbol : dim_symbols(signature_)) dims[symbol] = kExtent;
    for (const TensorArg& arg : signature_.tensors) {
      std::vector<std::int64_t> extents;
      for (const std::string& text : arg.dims) {
        const std::string bare = text.starts_with("...") ? text.substr(3) : text;
        const auto expression = Expression::parse(bare);
        const auto extent =
            expression ? expression->evaluate_int(lookup_in(dims)) : Result<std::int64_t>(kExtent);
        extents.push_back(extent ? *extent : kExtent);
      }
      call.memory.emplace_back(4096, 0.0);
      call.tensors.push_back(
          TensorView::contiguous(call.memory.back().data(), dtype_of(arg), extents));
    }
    for (const AttrArg& attribute : signature_.attributes) {
      if (attribute.default_value) continue;
      if (attribute.type == AttrType::kText) {
        call.attributes[attribute.name] =
            attribute.choices.empty() ? std::string() : attribute.choices.front();
      } else if (attribute.type == AttrType::kFloat) {
        call.attributes[attribute.name] = attribute.min.value_or(1.0);
      } else {
        call.attributes[attribute.name] = static_cast<std::int64_t>(attribute.min.value_or(1));
      }
    }
    return call;
  }

  DType dtype_of(const TensorArg& arg) const {
    if (!signature_.dtypes.empty()) {
      const auto found = signature_.dtypes.front().find(arg.dtype);
      if (found != signature_.dtypes.front().end()) return found->second;
    }
    const auto named = parse_dtype(arg.dtype);
    return named ? *named : DType::kF32;
  }

  // The call must be refused, and the message must say `name`.
  void expect(std::string what, std::string_view name, const std::function<void(Call&)>& spoil) {
    Call call = make();
    spoil(call);
    const auto bound = bind_call(signature_, call.tensors, call.attributes);
    ApiErrorResult result{std::move(what), false, "the call was accepted"};
    if (!bound) {
      result.message = bound.error().message;
      const bool kind =
          bound.error().code == Code::kInvalidArgument || bound.error().code == Code::kUnavailable;
      result.passed = kind && result.message.find(name) != std::string::npos;
    }
    results_.push_back(std::move(result));
  }

  void counts() {
    expect("a tensor too few", signature_.name, [](Call& call) { call.tensors.pop_back(); });
    expect("a tensor too many", signature_.name,
           [](Call& call) { call.tensors.push_back(call.tensors.back()); });
  }

  void tensor(std::size_t i) {
    const TensorArg& arg = signature_.tensors[i];
    const std::string& name = arg.name;
    expect("an integer dtype of " + name, name,
           [&](Call& call) { call.tensors[i].dtype = DType::kI8; });
    if (!arg.optional)
      expect(name + " left out", name, [&](Call& call) { call.tensors[i] = TensorView::absent(); });
    expect("null data of " + name, name, [&](Call& call) { call.tensors[i].data = nullptr; });
    expect("a negative dim of " + name, name, [&](Call& call) { call.tensors[i].dims[0] = -1; });
    expect("too many elements of " + name, name, [&](Call& call) {
      call.tensors[i].dims[0] = std::int64_t{1} << 62;
      call.tensors[i].strides[0] = std::int64_t{1} << 40;
    });
    expect("a rank too high of " + name, name,
           [&](Call& call) { call.tensors[i].rank = kMaxRank + 1; });
    const bool leading = !arg.dims.empty() && arg.dims.front().starts_with("...");
    if (!leading && arg.dims.size() > 1) {
      expect("a rank too low of " + name, name, [&](Call& call) { --call.tensors[i].rank; });
    }
    for (std::size_t axis = 0; axis < arg.dims.size(); ++axis) {
      if (!shared(i, arg.dims[axis])) continue;
      expect(fmt::format("{} of {} one too large", arg.dims[axis], name), name,
             [&](Call& call) { ++call.tensors[i].dims[axis]; });
    }
    if (signature_.tensors.size() > 1) {
      expect(name + " on another device", name, [&](Call& call) {
        call.tensors[i].device = {DeviceKind::kCuda, 0};
      });
    }
    if (arg.access == Access::kRead) return;
    for (std::size_t other = 0; other < signature_.tensors.size(); ++other) {
      if (other == i || (signature_.tensors[other].access != Access::kRead && other > i)) continue;
      expect(fmt::format("{} one element into {}", name, signature_.tensors[other].name), name,
             [&](Call& call) {
               call.tensors[i].data = static_cast<std::byte*>(call.tensors[other].data) +
                                      itemsize(call.tensors[other].dtype);
             });
    }
    if (!arg.dims.empty()) {
      expect("a zero stride of " + name, name, [&](Call& call) { call.tensors[i].strides[0] = 0; });
    }
  }

  // Another tensor fixes this dim too, so that a different extent is a contradiction.
  bool shared(std::size_t tensor, const std::string& dim) const {
    const std::string symbol = dim.starts_with("...") ? dim.substr(3) : dim;
    for (std::size_t i = 0; i < signature_.tensors.size(); ++i) {
      if (i == tensor) continue;
      for (const std::string& text : signature_.tensors[i].dims) {
        if ((text.starts_with("...") ? text.substr(3) : text) == symbol) return true;
      }
    }
    return false;
  }

  void attribute(const AttrArg& attribute) {
    const std::string& name = attribute.name;
    const auto set = [&](Value value) {
      return [&name, value](Call& call) { call.attributes[name] = value; };
    };
    if (attribute.type == AttrType::kText) {
      expect("a number for " + name, name, set(1.5));
      if (!attribute.choices.empty())
        expect("no choice of " + name, name, set(std::string("no-such-choice")));
      return;
    }
    expect("text for " + name, name, set(std::string("text")));
    if (attribute.type == AttrType::kBool) expect("2 for " + name, name, set(std::int64_t{2}));
    const bool whole = attribute.type == AttrType::kInt;
    const auto beyond = [&](double limit, double step) {
      return whole ? Value(static_cast<std::int64_t>(limit + step)) : Value(limit + step);
    };
    if (attribute.type == AttrType::kBool) return;
    if (attribute.min) expect(name + " below its range", name, set(beyond(*attribute.min, -1)));
    if (attribute.max) expect(name + " above its range", name, set(beyond(*attribute.max, 1)));
  }

  const Signature& signature_;
  std::vector<ApiErrorResult> results_;
};

}  // namespace

std::vector<ApiErrorResult> try_wrong_calls(const Operator& op) { return WrongCalls(op).run(); }

}  // namespace opforge
