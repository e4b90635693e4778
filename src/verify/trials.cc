// Which trials an operator gets: from its declaration alone.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "operator/expression.hpp"
#include "verify/suite.hpp"

namespace opforge {
namespace {

using Extents = std::vector<std::int64_t>;

const Extents kQuickRows{0, 1, 2, 3, 7, 8, 63, 64, 65, 65535, 65536, 65537};
const Extents kFullRows{127, 128, 129, 1023, 1024, 1025, 131073};
// 2^k - 1, 2^k, 2^k + 1, and widths beyond 64 K (one of them a vocabulary).
const Extents kQuickWidths{0,    1,    2,    3,    4,    5,    7,     8,     9,     15,    16,
                           17,   31,   32,   33,   63,   64,   65,    127,   128,   129,   255,
                           256,  257,  511,  512,  513,  1023, 1024,  1025,  2047,  2048,  2049,
                           4095, 4096, 4097, 8191, 8192, 8193, 65535, 65536, 65537, 151936};
const Extents kFullWidths{6,      10,     100,    1000,   1536,    3000,    5120,
                          12288,  16383,  16384,  16385,  32767,   32768,   32769,
                          131071, 131072, 131073, 262143, 1048575, 1048576, 1048577};

class TrialList {
 public:
  TrialList(const Operator& op, const Artifact& artifact, const DeviceInfo& device,
            const SuiteOptions& options)
      : op_(op),
        artifact_(artifact),
        device_(device),
        options_(options),
        full_(options.budget == Budget::kFull) {
    const auto batch = batch_symbols(op.signature);
    const auto& reduced = op.signature.reduced_dims;
    std::string last;  // the symbol that lies along memory: a width even where nothing is reduced
    for (const TensorArg& arg : op.signature.tensors) {
      if (last.empty() && !arg.dims.empty()) last = plain_symbol(arg.dims.back());
    }
    for (const std::string& symbol : dim_symbols(op.signature)) {
      const bool is_reduced = std::find(reduced.begin(), reduced.end(), symbol) != reduced.end();
      const bool is_batch = std::find(batch.begin(), batch.end(), symbol) != batch.end();
      (is_reduced || symbol == last || !is_batch ? widths_ : rows_).push_back(symbol);
    }
    base_attributes();
  }

  std::vector<SuiteTrial> make() {
    std::vector<DTypeCombo> combos{artifact_.variant.dtypes};
    if (combos.front().empty()) combos = op_.signature.dtypes;
    for (const DTypeCombo& combo : combos) {
      combo_ = combo;
      suffix_ = combos.size() > 1 ? " " + to_string(combo) : std::string();
      cases();
      if (options_.only_extra) continue;
      boundaries();
      layouts();
      hostile();
      attributes();
      optionals();
      aliasing();
      huge();
      pages();
      if (options_.tier == Tier::kDeterministic) bitwise();
    }
    return std::move(out_);
  }

 private:
  // Attributes without a default need a value in every trial; baked ones have the artifact's.
  void base_attributes() {
    for (const AttrArg& attribute : op_.signature.attributes) {
      const auto baked = artifact_.variant.baked.find(attribute.name);
      if (baked != artifact_.variant.baked.end()) {
        base_[attribute.name] = baked->second;
      } else if (!attribute.default_value) {
        if (attribute.type == AttrType::kText)
          base_[attribute.name] = attribute.choices.empty() ? "" : attribute.choices[0];
        else if (attribute.type == AttrType::kFloat)
          base_[attribute.name] = attribute.min.value_or(1.0);
        else
          base_[attribute.name] = static_cast<std::int64_t>(attribute.min.value_or(1));
      }
    }
  }

  ValueMap dims(std::int64_t row, std::int64_t width) const {
    ValueMap out;
    for (const std::string& symbol : rows_) out[symbol] = row;
    for (const std::string& symbol : widths_) out[symbol] = width;
    return out;
  }

  // Operators of many dims grow by powers of both extents, and contractions by more than their
  // tensors: such shapes shrink until this machine has a chance. What is laid out or rearranged
  // must not be tiled.
  ValueMap fitting(std::int64_t row, std::int64_t width) const {
    const std::int64_t most =
        std::min(most_elements(), rows_.size() > 2 ? std::int64_t{1} << 17 : kTiledElements);
    for (;;) {
      ValueMap out = dims(row, width);
      if (largest_tensor(out) <= most && flops(out) <= kFittingFlops) return out;
      if (row <= 2 && width <= 9) return out;
      if (row > 3 || width <= 9) {
        row = std::max<std::int64_t>(row / 2 + 1 < row ? row / 2 + 1 : row - 1, 1);
      } else {
        width = width / 2 + 1;
      }
    }
  }
  ValueMap with_attributes(ValueMap symbols) const {
    for (const AttrArg& attribute : op_.signature.attributes) {
      if (attribute.default_value) symbols[attribute.name] = *attribute.default_value;
    }
    for (const auto& [name, value] : base_) symbols[name] = value;
    return symbols;
  }
  // Of the work model; 0 on devices that have plenty.
  double flops(ValueMap symbols) const {
    if (device_.device.kind != DeviceKind::kCpu || full_) return 0;
    symbols = with_attributes(std::move(symbols));
    const auto expression = Expression::parse(op_.work.flops);
    const auto value =
        expression ? expression->evaluate_float(lookup_in(symbols)) : Result<double>(0);
    return value ? *value : 0;
  }

  std::int64_t largest_tensor(const ValueMap& dims, std::int64_t* total_bytes = nullptr) const {
    std::int64_t most = 0;
    if (total_bytes != nullptr) *total_bytes = 0;
    const ValueMap symbols = with_attributes(dims);
    for (const TensorArg& arg : op_.signature.tensors) {
      double count = 1;
      for (const std::string& text : arg.dims) {
        const std::string bare = text.starts_with("...") ? text.substr(3) : text;
        const auto expression = Expression::parse(bare);
        if (!expression) continue;
        if (const auto extent = expression->evaluate_int(lookup_in(symbols)))
          count *= static_cast<double>(*extent);
      }
      const auto elements = static_cast<std::int64_t>(std::min(count, 9e18));
      most = std::max(most, elements);
      if (total_bytes == nullptr) continue;
      const auto found = combo_.find(arg.dtype);
      const auto dtype =
          found != combo_.end() ? Result<DType>(found->second) : parse_dtype(arg.dtype);
      *total_bytes += static_cast<std::int64_t>(
          std::min(count * static_cast<double>(dtype ? itemsize(*dtype) : 8), 4e18));
    }
    return most;
  }

  Trial trial(ValueMap dims, const std::string& detail = {}) const {
    Trial out;
    for (const auto& [symbol, extent] : dims)
      out.name += fmt::format("{}{}={}", out.name.empty() ? "" : " ", symbol, to_string(extent));
    if (out.name.empty()) out.name = "scalar";
    out.name += suffix_;
    if (!detail.empty()) out.name += " " + detail;
    out.dims = std::move(dims);
    out.attributes = base_;
    out.dtypes = combo_;
    out.tiled = largest_tensor(out.dims) > kTiledElements;
    return out;
  }

  void add(std::string suite, Trial trial) {
    if (suite != "huge" && largest_tensor(trial.dims) > most_elements()) return;
    if (suite == "boundaries" && flops(trial.dims) > kMostFlops) return;
    trial.seed = trial_seed(artifact_.code_digest, trial.name, options_.salt);
    out_.push_back({std::move(suite), std::move(trial)});
  }

  std::int64_t most_elements() const {
    if (options_.most_elements > 0) return static_cast<std::int64_t>(options_.most_elements);
    if (device_.device.kind == DeviceKind::kCpu) return std::int64_t{1} << (full_ ? 26 : 22);
    return std::int64_t{1} << (full_ ? 28 : 24);
  }

  void cases() {
    for (const Case& declared : op_.cases) {
      if (options_.only_extra || (declared.uses & static_cast<unsigned>(CaseUse::kTest)) == 0)
        continue;
      Trial out = trial(declared.dims, declared.name);
      bool baked_otherwise = false;
      for (const auto& [name, value] : declared.attributes) {
        const auto baked = artifact_.variant.baked.find(name);
        baked_otherwise =
            baked_otherwise || (baked != artifact_.variant.baked.end() && baked->second != value);
        out.attributes[name] = value;
      }
      if (!baked_otherwise) add("cases", std::move(out));
    }
    for (const ValueMap& extra : options_.extra_dims) add("cases", trial(extra, "asked"));
  }

  void boundaries() {
    Extents rows = kQuickRows, widths = kQuickWidths;
    if (full_) rows.insert(rows.end(), kFullRows.begin(), kFullRows.end());
    if (full_) widths.insert(widths.end(), kFullWidths.begin(), kFullWidths.end());
    for (const std::string& symbol : rows_) {
      for (const std::int64_t extent : rows) {
        ValueMap shape = dims(3, 9);
        shape[symbol] = extent;
        add("boundaries", trial(std::move(shape)));
      }
    }
    for (const std::string& symbol : widths_) {
      for (const std::int64_t extent : widths) {
        ValueMap shape = dims(3, 9);
        shape[symbol] = extent;
        add("boundaries", trial(std::move(shape), "width"));
      }
    }
    if (!rows_.empty() && !widths_.empty())
      add("boundaries", trial(dims(1, 1))), add("boundaries", trial(dims(0, 0)));
  }

  void layouts() {
    for (const auto& [row, width] : {std::pair{6, 257}, std::pair{12, 1024}}) {
      for (int i = 1; i <= static_cast<int>(Layout::kLeadingGapped); ++i) {
        const auto layout = static_cast<Layout>(i);
        for (const LaidOut where : {LaidOut::kAll, LaidOut::kInputs, LaidOut::kOutputs}) {
          const bool apart = layout == Layout::kPaddedRows || layout == Layout::kEverySecond ||
                             layout == Layout::kMisaligned || layout == Layout::kReversedRows;
          if (where != LaidOut::kAll && !apart) continue;
          std::string detail(layout_name(layout));
          if (where != LaidOut::kAll) detail += where == LaidOut::kInputs ? " inputs" : " outputs";
          Trial out = trial(fitting(row, width), detail);
          out.layout = layout;
          out.laid_out = where;
          add("layouts", std::move(out));
        }
      }
    }
  }

  // Names of the floating tensors that have values before the run.
  std::vector<std::string> floating_inputs() const {
    std::vector<std::string> out;
    for (const TensorArg& arg : op_.signature.tensors) {
      const auto found = combo_.find(arg.dtype);
      const auto dtype =
          found != combo_.end() ? Result<DType>(found->second) : parse_dtype(arg.dtype);
      if (arg.access != Access::kWrite && dtype && is_floating(*dtype)) out.push_back(arg.name);
    }
    return out;
  }

  void hostile() {
    const std::vector<std::string> inputs = floating_inputs();
    for (const auto& [row, width] : {std::pair{5, 1000}, std::pair{4, 33}, std::pair{3, 8192}}) {
      for (int i = 1; i <= static_cast<int>(Data::kZeros); ++i) {
        const auto data = static_cast<Data>(i);
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          // The other inputs (weights) get single special values and zeros, at one shape.
          const bool special =
              data == Data::kOneNaN || data == Data::kOneInfinity || data == Data::kZeros;
          if (k > 0 && (!special || width != 1000)) continue;
          Trial out = trial(fitting(row, width), fmt::format("{}:{}", data_name(data), inputs[k]));
          out.data = data;
          out.data_tensor = inputs[k];
          add("hostile", std::move(out));
        }
      }
    }
  }

  void attributes() {
    for (const AttrArg& attribute : op_.signature.attributes) {
      if (attribute.baked && artifact_.variant.baked.contains(attribute.name))
        continue;  // other values are other variants
      std::vector<Value> values;
      for (const std::string& choice : attribute.choices) values.emplace_back(choice);
      if (attribute.type == AttrType::kBool) values = {std::int64_t{0}, std::int64_t{1}};
      for (const auto& limit : {attribute.min, attribute.max}) {
        if (!limit || attribute.type == AttrType::kText || attribute.type == AttrType::kBool)
          continue;
        if (attribute.type == AttrType::kInt)
          values.emplace_back(static_cast<std::int64_t>(*limit));
        else
          values.emplace_back(*limit);
      }
      if (attribute.type == AttrType::kFloat) {
        // Ordinary values too: a kernel that ignores the attribute must not pass on its default,
        // nor one that rounds it (f32 has these values, 16-bit types have not).
        for (const double ordinary : {0.75 + 0x1p-12, 2.5 + 0x1p-12, -1.25 - 0x1p-12}) {
          if (ordinary >= attribute.min.value_or(ordinary) &&
              ordinary <= attribute.max.value_or(ordinary))
            values.emplace_back(ordinary);
        }
      }
      for (const Value& value : values) {
        for (const auto& [row, width] : {std::pair{5, 257}, std::pair{4, 1024}}) {
          Trial out =
              trial(fitting(row, width), fmt::format("{}={}", attribute.name, to_string(value)));
          out.attributes[attribute.name] = value;
          add("attributes", std::move(out));
        }
      }
    }
  }

  void optionals() {
    std::set<std::string> all;
    for (const TensorArg& arg : op_.signature.tensors) {
      if (!arg.optional) continue;
      all.insert(arg.name);
      Trial out = trial(fitting(5, 257), "without " + arg.name);
      out.absent = {arg.name};
      add("optional", std::move(out));
    }
    if (all.size() < 2) return;
    Trial out = trial(fitting(5, 257), "without any optional");
    out.absent = all;
    add("optional", std::move(out));
  }

  void aliasing() {
    for (const TensorArg& arg : op_.signature.tensors) {
      if (arg.access != Access::kWrite) continue;
      for (const std::string& input : arg.may_alias) {
        for (const auto& [row, width] :
             {std::pair{5, 257}, std::pair{6, 4096}, std::pair{3, 65537}}) {
          Trial out = trial(fitting(row, width), fmt::format("{} in place of {}", arg.name, input));
          out.alias = arg.name;
          out.alias_input = input;
          add("aliasing", std::move(out));
        }
      }
    }
  }

  // More than 2^31 elements, in long rows and in many short ones; where the device has the memory.
  void huge() {
    if (!full_ || device_.device.kind == DeviceKind::kCpu || rows_.empty() || widths_.empty())
      return;
    for (const auto& [row, width] :
         {std::pair<std::int64_t, std::int64_t>{524291, 4096}, {65075263, 33}}) {
      ValueMap shape = dims(1, width);
      shape[rows_.front()] = row;
      std::int64_t bytes = 0;
      if (largest_tensor(shape, &bytes) <= std::numeric_limits<std::int32_t>::max()) continue;
      if (bytes > device_.memory_bytes / 10 * 6) continue;
      add("huge", trial(std::move(shape), "more than 2^31 elements"));
    }
  }

  // Host memory with nothing after its end: small shapes, full vectors and tails of every length
  // class.
  void pages() {
    if (device_.device.kind != DeviceKind::kCpu) return;
    for (const auto& [row, width] :
         {std::pair{1, 1}, {3, 37}, {2, 64}, {5, 1000}, {2, 4096}, {1, 513}}) {
      add("pages", trial(fitting(row, width), "fenced"));
    }
  }

  void bitwise() {
    for (const auto& [row, width] :
         {std::pair{67, 257}, std::pair{64, 1024}, std::pair{9, 4097}, std::pair{3, 65536}}) {
      add("bitwise", trial(fitting(row, width), "bits"));
    }
  }

  static constexpr double kFittingFlops = 4e6, kMostFlops = 16e6;
  static constexpr std::int64_t kTiledElements = std::int64_t{1} << 22;

  const Operator& op_;
  const Artifact& artifact_;
  const DeviceInfo& device_;
  const SuiteOptions& options_;
  bool full_;
  std::vector<std::string> rows_, widths_;
  ValueMap base_;
  DTypeCombo combo_;
  std::string suffix_;
  std::vector<SuiteTrial> out_;
};

}  // namespace

std::vector<SuiteTrial> trials_for(const Operator& op, const Artifact& artifact,
                                   const DeviceInfo& device, const SuiteOptions& options) {
  return TrialList(op, artifact, device, options).make();
}

}  // namespace opforge
