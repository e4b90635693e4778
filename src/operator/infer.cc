#include "operator/infer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "operator/expression.hpp"

namespace opforge {
namespace {

bool is_plain_symbol(std::string_view dim) {
  return !dim.empty() && std::all_of(dim.begin(), dim.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  }) && !(dim[0] >= '0' && dim[0] <= '9');
}

// The symbol and the factor of "2*N"; an empty symbol for any other text.
std::pair<std::string, std::int64_t> scaled_symbol(std::string_view dim) {
  const auto star = dim.find('*');
  if (star == std::string_view::npos) return {};
  const std::string_view left = trim(dim.substr(0, star)), right = trim(dim.substr(star + 1));
  std::int64_t factor = 0;
  const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), factor);
  if (error != std::errc{} || end != left.data() + left.size() || factor < 1) return {};
  return is_plain_symbol(right) ? std::pair{std::string(right), factor}
                                : std::pair<std::string, std::int64_t>{};
}

struct Known {
  ValueMap symbols;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> leading;
  DTypeCombo dtypes;
  Device device;
};

// Read symbols off one given tensor. Contradictions are bind_call's to report.
Status learn(const TensorArg& arg, const TensorView& view, Known& known) {
  std::vector<std::int64_t> dims(view.dims.begin(), view.dims.begin() + view.rank);
  if (dims.empty() && !arg.dims.empty()) dims.push_back(1);
  std::size_t at = 0;
  std::size_t first = 0;
  if (!arg.dims.empty()) {
    if (const std::string_view symbol = leading_symbol(arg.dims.front()); !symbol.empty()) {
      const std::size_t fixed = arg.dims.size() - 1;
      if (dims.size() < fixed) {
        return fail(Code::kInvalidArgument, fmt::format("{} has rank {}, at least {} is needed",
                                                        arg.name, view.rank, fixed));
      }
      at = dims.size() - fixed;
      std::int64_t product = 1;
      for (std::size_t i = 0; i < at; ++i) product *= dims[i];
      known.leading.emplace(
          symbol,
          std::vector<std::int64_t>(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(at)));
      known.symbols.emplace(symbol, product);
      first = 1;
    }
  }
  if (dims.size() - at != arg.dims.size() - first) {
    return fail(Code::kInvalidArgument, fmt::format("{} has rank {}, its declared dims are [{}]",
                                                    arg.name, view.rank, join(arg.dims, ", ")));
  }
  for (std::size_t i = first; i < arg.dims.size(); ++i, ++at) {
    if (is_plain_symbol(arg.dims[i])) known.symbols.emplace(arg.dims[i], dims[at]);
    if (auto [symbol, factor] = scaled_symbol(arg.dims[i]); !symbol.empty())
      known.symbols.emplace(std::move(symbol), dims[at] / factor);
  }
  if (is_dtype_variable(arg.dtype)) known.dtypes.emplace(arg.dtype, view.dtype);
  known.device = view.device;
  return {};
}

Result<std::vector<std::int64_t>> dims_of(const Signature& signature, const TensorArg& arg,
                                          const Known& known) {
  std::vector<std::int64_t> dims;
  const SymbolLookup lookup = lookup_in(known.symbols);
  for (const std::string& dim : arg.dims) {
    if (const std::string_view symbol = leading_symbol(dim); !symbol.empty()) {
      const auto found = known.leading.find(symbol);
      if (found == known.leading.end()) {
        return fail(Code::kInvalidArgument,
                    fmt::format("{}: the leading dims {} of {} follow from no given tensor",
                                signature.name, dim, arg.name));
      }
      dims.insert(dims.end(), found->second.begin(), found->second.end());
      continue;
    }
    OPFORGE_ASSIGN(Expression expression, Expression::parse(dim));
    auto extent = expression.evaluate_int(lookup);
    if (!extent) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: dim {} of {} follows from no given tensor: {}", signature.name,
                              dim, arg.name, extent.error().message));
    }
    dims.push_back(*extent);
  }
  if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: {} would have rank {}, at most {} is supported", signature.name,
                            arg.name, dims.size(), kMaxRank));
  }
  return dims;
}

Result<DType> dtype_of(const Signature& signature, const TensorArg& arg, const Known& known) {
  if (!is_dtype_variable(arg.dtype)) return parse_dtype(arg.dtype);
  if (const auto found = known.dtypes.find(arg.dtype); found != known.dtypes.end())
    return found->second;
  // The first allowed combination that agrees with what is known.
  for (const DTypeCombo& combo : signature.dtypes) {
    const bool agrees =
        std::all_of(known.dtypes.begin(), known.dtypes.end(), [&](const auto& entry) {
          const auto found = combo.find(entry.first);
          return found == combo.end() || found->second == entry.second;
        });
    if (const auto found = combo.find(arg.dtype); agrees && found != combo.end())
      return found->second;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("{}: the dtype {} of {} follows from no given tensor", signature.name,
                          arg.dtype, arg.name));
}

}  // namespace

Result<std::vector<TensorView>> infer_outputs(const Signature& signature,
                                              std::span<const TensorView> tensors,
                                              const ValueMap& attributes) {
  if (tensors.size() != signature.tensors.size()) {
    return fail(Code::kInvalidArgument, fmt::format("{} takes {} tensors, got {}", signature.name,
                                                    signature.tensors.size(), tensors.size()));
  }
  Known known;
  OPFORGE_ASSIGN(ValueMap bound, bind_attributes(signature, attributes));
  known.symbols = std::move(bound);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].present()) OPFORGE_TRY(learn(signature.tensors[i], tensors[i], known));
  }
  std::vector<TensorView> complete(tensors.begin(), tensors.end());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorArg& arg = signature.tensors[i];
    if (tensors[i].present() || arg.access != Access::kWrite || arg.optional) continue;
    OPFORGE_ASSIGN(auto dims, dims_of(signature, arg, known));
    OPFORGE_ASSIGN(DType dtype, dtype_of(signature, arg, known));
    complete[i] = TensorView::contiguous(nullptr, dtype, dims, known.device);
  }
  return complete;
}

Result<std::vector<TensorView>> placeholder_tensors(const Signature& signature,
                                                    const ValueMap& dims, const DTypeCombo& dtypes,
                                                    const ValueMap& attributes, Device device,
                                                    bool with_optional) {
  Known known;
  OPFORGE_ASSIGN(ValueMap bound, bind_attributes(signature, attributes));
  known.symbols = std::move(bound);
  known.dtypes = dtypes;
  const std::vector<std::string> symbols = dim_symbols(signature);
  for (const auto& [symbol, extent] : dims) {
    if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) {
      return fail(Code::kInvalidArgument, fmt::format("{} has no dim {}; its dims are {}",
                                                      signature.name, symbol, join(symbols, ", ")));
    }
    known.symbols[symbol] = extent;
    if (const auto* value = std::get_if<std::int64_t>(&extent)) known.leading[symbol] = {*value};
  }
  for (const std::string& symbol : symbols) {
    if (!dims.contains(symbol)) {
      return fail(Code::kInvalidArgument, fmt::format("{}: the shape lacks {}; give all of {}",
                                                      signature.name, symbol, join(symbols, ", ")));
    }
  }
  std::vector<TensorView> tensors;
  std::uintptr_t address = std::uintptr_t{1} << 32;
  for (const TensorArg& arg : signature.tensors) {
    if (arg.optional && !with_optional) {
      tensors.push_back(TensorView::absent());
      continue;
    }
    OPFORGE_ASSIGN(auto extents, dims_of(signature, arg, known));
    OPFORGE_ASSIGN(DType dtype, dtype_of(signature, arg, known));
    TensorView view =
        TensorView::contiguous(reinterpret_cast<void*>(address), dtype, extents, device);
    OPFORGE_TRY(check_shape(view, arg.name));
    const std::uintptr_t bytes =
        static_cast<std::uintptr_t>(view.element_count()) * itemsize(dtype);
    address += (bytes + 8191) / 4096 * 4096;
    tensors.push_back(view);
  }
  return tensors;
}

}  // namespace opforge
