#include "forge/expected.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/hash.hpp"
#include "operator/infer.hpp"
#include "tensor/npy.hpp"
#include "verify/inputs.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "forge/expected";
constexpr std::int64_t kMostElements = 1 << 18;

nlohmann::json to_json(const ValueMap& values) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : values) {
    std::visit([&, key = name](const auto& held) { json[key] = held; }, value);
  }
  return json;
}

std::string_view access_name(Access access) {
  return access == Access::kRead ? "read" : access == Access::kWrite ? "write" : "update";
}

std::vector<std::int64_t> dims_of(const TensorView& view) {
  return {view.dims.begin(), view.dims.begin() + view.rank};
}

double draw(Random& random, Fill fill) {
  switch (fill) {
    case Fill::kUniform01:
      return random.uniform();
    case Fill::kPositive:
      return 0.1 + std::fabs(random.normal());
    case Fill::kNormal:
      break;
  }
  return random.normal();
}

// "small.T-bf16.W-f32": a name for a folder.
std::string folder_name(const Case& one, const DTypeCombo& combo) {
  std::string name = one.name;
  for (const auto& [variable, dtype] : combo) {
    name += fmt::format(".{}-{}", variable, dtype_name(dtype));
  }
  std::replace(name.begin(), name.end(), '/', '-');
  return name;
}

class CaseWriter {
 public:
  CaseWriter(const Operator& op, const Case& one, const DTypeCombo& combo, bool with_optional,
             const Path& parent)
      : op_(op), case_(one), combo_(combo), with_optional_(with_optional) {
    folder_ = parent / (folder_name(one, combo) + (with_optional ? "" : ".without-optional"));
  }

  // False: a tensor is too large.
  Result<bool> write() {
    const Signature& signature = op_.signature;
    OPFORGE_ASSIGN(ValueMap attributes, bind_attributes(signature, case_.attributes));
    OPFORGE_ASSIGN(
        views_, placeholder_tensors(signature, case_.dims, combo_, attributes, {}, with_optional_));
    for (const TensorView& view : views_) {
      if (view.present() && view.element_count() > kMostElements) return false;
    }
    OPFORGE_TRY(make_dirs(folder_, 0755));
    OPFORGE_ASSIGN(BoundCall bound, bind_call(signature, views_, attributes));
    ReferenceCall call;
    call.attributes = attributes;
    call.dims = bound.dims;
    Random random(sha_seed());
    json_ = {{"op", signature.name},
             {"contract", tier_name(signature.default_contract)},
             {"attributes", to_json(attributes)},
             {"tensors", nlohmann::json::array()},
             {"tolerance", nlohmann::json::object()}};
    for (std::size_t i = 0; i < views_.size(); i++) OPFORGE_TRY(add_input(i, random, call));
    op_.reference(call);
    for (std::size_t i = 0; i < views_.size(); i++) OPFORGE_TRY(add_output(i, call));
    OPFORGE_TRY(write_file_atomic(folder_ / "case.json", json_.dump(2) + "\n"));
    return true;
  }

 private:
  // Inputs follow from the names alone, so that the folder is the same everywhere.
  std::uint64_t sha_seed() const {
    const Digest digest = Fingerprint()
                              .add("op", op_.signature.name)
                              .add("case", folder_.filename().string())
                              .finish();
    std::uint64_t seed = 0;
    std::memcpy(&seed, digest.bytes.data(), sizeof seed);
    return seed;
  }

  Status add_input(std::size_t index, Random& random, ReferenceCall& call) {
    const TensorArg& argument = op_.signature.tensors[index];
    const TensorView& view = views_[index];
    nlohmann::json entry = {{"name", argument.name}};
    ReferenceTensor tensor;
    tensor.present = view.present();
    if (view.present()) {
      entry["access"] = access_name(argument.access);
      entry["dtype"] = dtype_name(view.dtype);
      entry["dims"] = dims_of(view);
      tensor.dims = dims_of(view);
      tensor.values.assign(std::size_t(view.element_count()), std::nan(""));
      if (argument.access != Access::kWrite) {
        const std::string file = argument.name + ".npy";
        entry["file"] = file;
        const std::string bytes = fill(argument, view.dtype, random, tensor.values);
        OPFORGE_TRY(write_npy(folder_ / file, view.dtype, tensor.dims, bytes));
      }
    } else {
      entry["absent"] = true;
    }
    json_["tensors"].push_back(std::move(entry));
    call.tensors[argument.name] = std::move(tensor);
    return {};
  }

  std::string fill(const TensorArg& argument, DType dtype, Random& random,
                   std::vector<double>& values) const {
    const auto declared = op_.fills.find(argument.name);
    const Fill kind = declared == op_.fills.end() ? Fill::kNormal : declared->second;
    const std::size_t size = itemsize(dtype);
    std::string bytes(values.size() * size, '\0');
    for (std::size_t i = 0; i < values.size(); i++) {
      store_from_double(&bytes[i * size], dtype, draw(random, kind));
      values[i] = load_as_double(&bytes[i * size], dtype);
    }
    return bytes;
  }

  Status add_output(std::size_t index, const ReferenceCall& call) {
    const TensorArg& argument = op_.signature.tensors[index];
    if (argument.access == Access::kRead || !views_[index].present()) return {};
    const ReferenceTensor& tensor = call.tensors.at(argument.name);
    const Bound& bound = op_.tolerances.at(op_.signature.default_contract);
    std::vector<double> condition = tensor.condition;
    if (condition.empty()) {
      for (const double value : tensor.values) condition.push_back(std::fabs(value));
    }
    const std::string expected = argument.name + ".expected.npy";
    const std::string conditions = argument.name + ".condition.npy";
    json_["tolerance"][argument.name] = {
        {"expected", expected}, {"condition", conditions}, {"a", bound.a}, {"b", bound.b}};
    OPFORGE_TRY(write_doubles(expected, tensor.dims, tensor.values));
    return write_doubles(conditions, tensor.dims, condition);
  }

  Status write_doubles(const std::string& name, std::span<const std::int64_t> dims,
                       std::span<const double> values) const {
    return write_npy(folder_ / name, DType::kF64, dims,
                     {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  const Operator& op_;
  const Case& case_;
  const DTypeCombo& combo_;
  bool with_optional_;
  Path folder_;
  std::vector<TensorView> views_;
  nlohmann::json json_;
};

bool has_optional(const Signature& signature) {
  return std::any_of(signature.tensors.begin(), signature.tensors.end(),
                     [](const TensorArg& tensor) { return tensor.optional; });
}

bool wanted(const Signature& signature, const DTypeCombo& combo, std::span<const DType> dtypes) {
  const auto first = combo.find(signature.tensors.front().dtype);
  return dtypes.empty() || first == combo.end() ||
         std::find(dtypes.begin(), dtypes.end(), first->second) != dtypes.end();
}

}  // namespace

Status write_expected(std::span<const Operator* const> operators, std::span<const DType> dtypes,
                      const Path& folder) {
  for (const Operator* op : operators) {
    const Path parent = folder / op->signature.name;
    std::size_t written = 0;
    for (const Case& one : op->cases) {
      if ((one.uses & unsigned(CaseUse::kTest)) == 0) continue;
      for (const DTypeCombo& combo : op->signature.dtypes) {
        if (!wanted(op->signature, combo, dtypes)) continue;
        for (const bool with_optional : {true, false}) {
          if (!with_optional && !has_optional(op->signature)) continue;
          OPFORGE_ASSIGN(bool done, CaseWriter(*op, one, combo, with_optional, parent).write());
          written += done ? 1 : 0;
        }
      }
    }
    if (written == 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{} has no test case of at most {} elements with these dtypes",
                              op->signature.name, kMostElements),
                  kWhere);
    }
  }
  return {};
}

}  // namespace opforge
