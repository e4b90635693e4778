#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.hpp"
#include "operator/overlap.hpp"
#include "operator/signature.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "operator/bind_call";

std::string list(const std::int64_t* values, int count) {
  return fmt::format("[{}]", fmt::join(values, values + count, ","));
}

std::string combos_text(const Signature& signature) {
  std::vector<std::string> texts;
  for (const DTypeCombo& combo : signature.dtypes) texts.push_back(to_string(combo));
  return join(texts, "; ");
}

// A symbol's value and the argument that gave it, for "N is 4096 in x but 4095 in w".
struct Seen {
  std::int64_t value = 0;
  std::string_view from;
};
// The caller's own leading dims behind "...M".
struct Leading {
  std::vector<std::int64_t> dims;
  std::string_view from;
};

class Binder {
 public:
  Binder(const Signature& signature, std::span<const TensorView> tensors)
      : signature_(signature), given_(tensors) {}

  Result<BoundCall> run(const ValueMap& attributes) {
    OPFORGE_ASSIGN(call_.attributes, bind_attributes(signature_, attributes));
    OPFORGE_TRY(check_each());
    OPFORGE_TRY(solve_dtypes());
    for (std::size_t i = 0; i < given_.size(); ++i) {
      OPFORGE_TRY(bind_tensor(i));
    }
    for (const std::string& symbol : dim_symbols(signature_)) {
      const auto found = symbols_.find(symbol);
      call_.dims.emplace(symbol, found == symbols_.end() ? 0 : found->second.value);
    }
    OPFORGE_TRY(check_expression_dims());
    OPFORGE_TRY(check_overlaps());
    return std::move(call_);
  }

 private:
  template <class... Args>
  tl::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: {}", signature_.name, fmt::format(format, std::forward<Args>(args)...)),
        kWhere);
  }

  // Count, presence, shape, device: what needs no other tensor's dims.
  Status check_each() {
    if (given_.size() != signature_.tensors.size()) {
      std::vector<std::string> names;
      for (const TensorArg& tensor : signature_.tensors) {
        names.push_back(tensor.optional ? tensor.name + " (optional)" : tensor.name);
      }
      return wrong("takes {} tensors ({}) but {} came", names.size(), join(names, ", "),
                   given_.size());
    }
    const TensorView* first = nullptr;
    std::string_view first_name;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const TensorView& view = given_[i];
      const std::string& name = signature_.tensors[i].name;
      if (!view.present()) {
        if (signature_.tensors[i].optional) continue;
        return wrong("tensor {} is missing and not optional: give it", name);
      }
      if (auto status = check_shape(view, name); !status) {
        Error error = std::move(status.error());
        error.message = fmt::format("{}: {}", signature_.name, error.message);
        return fail(std::move(error));
      }
      if (!first) {
        first = &view;
        first_name = name;
      } else if (!(view.device == first->device)) {
        return wrong("{} is on {} but {} is on {}: put all tensors on one device", first_name,
                     device_name(first->device), name, device_name(view.device));
      }
    }
    return {};
  }

  Status solve_dtypes() {
    std::map<std::string, std::string_view, std::less<>> from;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const TensorArg& argument = signature_.tensors[i];
      if (!given_[i].present()) continue;
      const DType dtype = given_[i].dtype;
      if (const auto fixed = parse_dtype(argument.dtype)) {
        if (dtype == *fixed) continue;
        return wrong("{} must be {}, not {}", argument.name, argument.dtype, dtype_name(dtype));
      }
      const auto [seen, is_new] = call_.dtypes.emplace(argument.dtype, dtype);
      if (is_new) from[argument.dtype] = argument.name;
      if (seen->second == dtype) continue;
      return wrong("{} and {} have one dtype, {}: it is {} in {} but {} in {}; allowed: {}",
                   from[argument.dtype], argument.name, argument.dtype, dtype_name(seen->second),
                   from[argument.dtype], dtype_name(dtype), argument.name, combos_text(signature_));
    }
    for (const DTypeCombo& combo : signature_.dtypes) {
      const bool fits = std::all_of(call_.dtypes.begin(), call_.dtypes.end(), [&](const auto& d) {
        const auto found = combo.find(d.first);
        return found != combo.end() && found->second == d.second;
      });
      if (!fits) continue;
      call_.dtypes = combo;
      return {};
    }
    if (call_.dtypes.empty()) return {};
    std::string of;
    for (const auto& [variable, name] : from)
      of += fmt::format("{}{} is {}", of.empty() ? "" : ", ", name, variable);
    return wrong("dtypes {} are not supported; allowed: {} ({})", to_string(call_.dtypes),
                 combos_text(signature_), of);
  }

  Status bind_tensor(std::size_t index) {
    const TensorArg& argument = signature_.tensors[index];
    TensorView view = given_[index];
    if (view.present()) {
      if (view.rank == 0 && !argument.dims.empty()) {
        view.rank = 1;
        view.dims[0] = view.strides[0] = 1;
      }
      const bool leads = !argument.dims.empty() && !leading_symbol(argument.dims[0]).empty();
      const int declared = static_cast<int>(argument.dims.size());
      if (leads ? view.rank < declared - 1 : view.rank != declared) {
        return wrong("{} must have rank {}{} ([{}]), not {} ({})", argument.name,
                     leads ? "at least " : "", leads ? declared - 1 : declared,
                     join(argument.dims, ", "), view.rank, list(view.dims.data(), view.rank));
      }
      if (leads) OPFORGE_TRY(collapse(argument, view));
      OPFORGE_TRY(bind_dims(argument, view));
      make_canonical(view);
    }
    call_.tensors.push_back(view);
    return {};
  }

  // Make the leading dims of `view` one dim, in place.
  Status collapse(const TensorArg& argument, TensorView& view) {
    const int trailing = static_cast<int>(argument.dims.size()) - 1;
    const int count = view.rank - trailing;
    const std::vector<std::int64_t> leading(view.dims.begin(), view.dims.begin() + count);
    const std::string_view symbol = leading_symbol(argument.dims[0]);
    const auto [seen, is_new] = leading_.emplace(symbol, Leading{leading, argument.name});
    if (!is_new && seen->second.dims != leading) {
      return wrong("the leading dims (...{}) are [{}] in {} but [{}] in {}", symbol,
                   fmt::join(seen->second.dims, ","), seen->second.from, fmt::join(leading, ","),
                   argument.name);
    }
    std::int64_t rows = 1, stride = 1;
    bool uniform = true;
    for (int d = count - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      if (view.dims[i] == 1) continue;
      std::int64_t next = 0;  // the stride that continues the rows so far
      if (rows == 1) {
        stride = view.strides[i];
      } else if (__builtin_mul_overflow(rows, stride, &next) || next != view.strides[i]) {
        uniform = false;
      }
      if (__builtin_mul_overflow(rows, view.dims[i], &rows)) {  // only where another dim is 0
        return wrong("the product of the leading dims {} of {} is outside 64 bits",
                     list(leading.data(), count), argument.name);
      }
    }
    if (!uniform && view.element_count() != 0) {
      return fail(Code::kUnavailable,
                  fmt::format("{}: the leading dims {} of {} with strides {} cannot be seen as one "
                              "dim {}: make {} contiguous, or call once for each index of the "
                              "outermost dim",
                              signature_.name, list(leading.data(), count), argument.name,
                              list(view.strides.data(), count), symbol, argument.name),
                  kWhere);
    }
    TensorView collapsed = view;
    collapsed.rank = trailing + 1;
    collapsed.dims[0] = rows;
    collapsed.strides[0] = stride;
    for (int d = 0; d < trailing; ++d) {
      collapsed.dims[static_cast<std::size_t>(d + 1)] =
          view.dims[static_cast<std::size_t>(count + d)];
      collapsed.strides[static_cast<std::size_t>(d + 1)] =
          view.strides[static_cast<std::size_t>(count + d)];
    }
    view = collapsed;
    return {};
  }

  Status bind_dims(const TensorArg& argument, const TensorView& view) {
    for (std::size_t d = 0; d < argument.dims.size(); ++d) {
      const std::string_view leading = leading_symbol(argument.dims[d]);
      const std::string_view symbol =
          leading.empty() ? std::string_view(argument.dims[d]) : leading;
      if (!is_identifier(symbol)) continue;
      const auto [seen, is_new] = symbols_.emplace(symbol, Seen{view.dims[d], argument.name});
      if (is_new || seen->second.value == view.dims[d]) continue;
      return wrong("{} is {} in {} but {} in {}", symbol, seen->second.value, seen->second.from,
                   view.dims[d], argument.name);
    }
    return {};
  }

  static void make_canonical(TensorView& view) {
    const bool empty = view.element_count() == 0;
    std::int64_t dense = 1;
    for (int d = view.rank - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      if (view.dims[i] == 1 || empty) view.strides[i] = dense;
      const std::int64_t extent = std::max<std::int64_t>(view.dims[i], 1);
      std::int64_t next = 0;
      // Only of a view that spans the whole address space: any stride will do for the dims of 1
      // outside it.
      dense = __builtin_mul_overflow(view.strides[i], extent, &next) ? view.strides[i] : next;
    }
  }

  Status check_expression_dims() {
    const auto lookup = [this](std::string_view symbol) -> const Value* {
      if (const auto dim = call_.dims.find(symbol); dim != call_.dims.end()) return &dim->second;
      const auto found = call_.attributes.find(symbol);
      return found == call_.attributes.end() ? nullptr : &found->second;
    };
    for (std::size_t i = 0; i < call_.tensors.size(); ++i) {
      const TensorArg& argument = signature_.tensors[i];
      const TensorView& view = call_.tensors[i];
      for (std::size_t d = 0; view.present() && d < argument.dims.size(); ++d) {
        const std::string& dim = argument.dims[d];
        if (is_identifier(dim) || !leading_symbol(dim).empty()) continue;
        OPFORGE_ASSIGN(const Expression expression, Expression::parse(dim));
        auto expected = expression.evaluate_int(lookup);
        if (!expected) {
          return wrong("dim {} of {}: {}", d, argument.name, expected.error().message);
        }
        if (*expected == view.dims[d]) continue;
        return wrong("dim {} of {} must be {} = {}, not {}", d, argument.name, dim, *expected,
                     view.dims[d]);
      }
    }
    return {};
  }

  static bool declared_alias(const TensorArg& a, const TensorArg& b) {
    const auto names = [](const TensorArg& from, const TensorArg& to) {
      return std::find(from.may_alias.begin(), from.may_alias.end(), to.name) !=
             from.may_alias.end();
    };
    return names(a, b) || names(b, a);
  }

  static bool same_memory(const TensorView& a, const TensorView& b) {
    return a.data == b.data && a.dtype == b.dtype && a.rank == b.rank &&
           std::equal(a.dims.begin(), a.dims.begin() + a.rank, b.dims.begin()) &&
           std::equal(a.strides.begin(), a.strides.begin() + a.rank, b.strides.begin());
  }

  Status check_overlaps() {
    for (std::size_t i = 0; i < call_.tensors.size(); ++i) {
      const TensorView& output = call_.tensors[i];
      const TensorArg& argument = signature_.tensors[i];
      if (argument.access == Access::kRead || !output.present()) continue;
      if (may_overlap_itself(output)) {
        return wrong(
            "output {} ({}) has elements that share memory: give it memory of its own for "
            "each element",
            argument.name, describe(output));
      }
      for (std::size_t j = 0; j < call_.tensors.size(); ++j) {
        // A pair of outputs is looked at once.
        if (j == i || (j < i && signature_.tensors[j].access != Access::kRead)) continue;
        const TensorArg& other = signature_.tensors[j];
        if (!call_.tensors[j].present() || !may_share_elements(output, call_.tensors[j])) continue;
        const bool may = declared_alias(argument, other);
        if (may && same_memory(output, call_.tensors[j])) continue;
        return wrong("output {} ({}) overlaps {} ({}): give it memory of its own{}", argument.name,
                     describe(output), other.name, describe(call_.tensors[j]),
                     may ? ", or exactly the same memory with the same dims and strides" : "");
      }
    }
    return {};
  }

  const Signature& signature_;
  std::span<const TensorView> given_;
  BoundCall call_;
  std::map<std::string_view, Seen> symbols_;
  std::map<std::string_view, Leading> leading_;
};

}  // namespace

Result<BoundCall> bind_call(const Signature& signature, std::span<const TensorView> tensors,
                            const ValueMap& attributes) {
  return Binder(signature, tensors).run(attributes);
}

}  // namespace opforge
