#include "verify/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "verify/compare.hpp"

namespace opforge {
namespace {

constexpr std::int64_t kSampledAbove =
    std::int64_t{1} << 20;  // elements: the reference then runs on some rows only

// Rows of a large trial that are judged: the ends, where 16- and 32-bit counts wrap, and random
// ones.
std::vector<std::int64_t> sampled_rows(std::int64_t rows, std::int64_t elements_per_row,
                                       std::uint64_t seed) {
  std::set<std::int64_t> out{0, 1, rows / 2, rows - 2, rows - 1, 65534, 65535, 65536};
  for (const std::int64_t wrap : {std::int64_t{1} << 31, std::int64_t{1} << 32}) {
    const std::int64_t row = wrap / std::max<std::int64_t>(elements_per_row, 1);
    out.insert({row - 1, row, row + 1});
  }
  Random random(seed);
  for (int i = 0; i < 16; ++i) out.insert(random.below(rows));
  std::vector<std::int64_t> inside;
  for (const std::int64_t row : out) {
    if (row >= 0 && row < rows) inside.push_back(row);
  }
  return inside;
}

// The widest dim along which rows lie together in memory, so that some of them are cheap to read
// back.
std::string widest_batch_symbol(const Signature& signature, const Trial& trial) {
  std::string best;
  std::int64_t most = 0;
  for (const std::string& symbol : batch_symbols(signature)) {
    const auto found = trial.dims.find(symbol);
    const auto* extent =
        found == trial.dims.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    bool leads = extent != nullptr;
    for (const TensorArg& arg : signature.tensors) leads = leads && axis_of(arg, symbol) <= 0;
    if (leads && *extent > most) most = *extent, best = symbol;
  }
  return best;
}

}  // namespace

Result<Judgement> judge(const Operator& op, const TrialMemory& memory, const Bound& bound) {
  std::int64_t most = 0;
  for (const TensorView& view : memory.views()) {
    if (view.present()) most = std::max(most, view.element_count());
  }
  std::string symbol;
  std::vector<std::int64_t> rows;
  if (most > kSampledAbove) symbol = widest_batch_symbol(op.signature, memory.trial());
  if (!symbol.empty()) {
    const std::int64_t extent = std::get<std::int64_t>(memory.trial().dims.at(symbol));
    rows = sampled_rows(extent, most / std::max<std::int64_t>(extent, 1), memory.trial().seed);
  }
  OPFORGE_ASSIGN(const ReferenceCall reference, memory.reference(symbol, rows));
  Judgement out;
  for (std::size_t i = 0; i < op.signature.tensors.size(); ++i) {
    const TensorArg& arg = op.signature.tensors[i];
    const GuardedTensor& tensor = memory.tensors()[i];
    if (arg.access == Access::kRead || !tensor.present()) continue;
    const auto found = reference.tensors.find(arg.name);
    if (found == reference.tensors.end()) {
      return fail(Code::kInvalidDeclaration, "the reference gave no " + arg.name, "verify");
    }
    OPFORGE_ASSIGN(const std::vector<double> actual,
                   tensor.values(memory.rows_of(i, symbol, rows)));
    const TensorErrors errors =
        compare_tensor(arg.name, actual, found->second, tensor.view().dtype, bound);
    out.worst_ulps = std::max(out.worst_ulps, errors.worst_ulps);
    out.worst_share = std::max(out.worst_share, errors.worst_share);
    if (errors.wrong > 0 && out.problem.empty()) out.problem = errors.problem;
    // Among rows that the reference did not see, NaN can be right; not where every input is an
    // ordinary value.
    if (errors.wrong == 0 && memory.trial().data != Data::kOrdinary) continue;
    OPFORGE_ASSIGN(const std::int64_t poisoned, tensor.still_poisoned());
    if (poisoned > 0) {
      out.problem = fmt::format("{}: {} of {} elements were never written", arg.name, poisoned,
                                tensor.view().element_count());
    }
  }
  return out;
}

}  // namespace opforge
