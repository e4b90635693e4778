// A host that knows no operator: see README.md.
#include <opforge/opforge.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "dtypes.hpp"
#include "npy.hpp"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

[[noreturn]] void stop(const std::string& what) {
  throw std::runtime_error(what + ": " + opforge_last_error());
}

void list(opforge_context* context) {
  std::size_t count = 0;
  if (opforge_operator_count(context, &count) != OPFORGE_OK) stop("operators");
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    const opforge_operator* op = nullptr;
    const opforge_operator_info* info = nullptr;
    if (opforge_operator_name(context, i, &name) != OPFORGE_OK) stop("operator name");
    if (opforge_operator_find(context, name, &op) != OPFORGE_OK) stop(name);
    if (opforge_operator_describe(op, &info) != OPFORGE_OK) stop(name);
    std::printf("%s(", name);
    for (std::size_t t = 0; t < info->tensor_count; ++t) {
      const opforge_tensor_info& tensor = info->tensors[t];
      std::printf("%s%s%s: %s[", t == 0 ? "" : ", ", tensor.access == OPFORGE_READ ? "" : "out ",
                  tensor.name, tensor.dtype);
      for (int d = 0; d < tensor.dim_count; ++d)
        std::printf("%s%s", d == 0 ? "" : ",", tensor.dims[d]);
      std::printf("]%s", tensor.optional ? "?" : "");
    }
    std::printf(")  %s  %zu artifacts\n", info->formula, info->artifact_count);
  }
}

// One argument of a case: the memory and its DLPack view.
struct Argument {
  std::string name, dtype;
  bool absent = false, written = false;
  std::vector<std::int64_t> dims;
  std::vector<char> bytes;
  DLTensor dl{};
};

Argument argument(const json& tensor, const fs::path& folder, DLDeviceType device) {
  Argument made;
  made.name = tensor.at("name");
  made.absent = tensor.value("absent", false);
  if (made.absent) return made;
  made.dtype = tensor.at("dtype");
  made.dims = tensor.at("dims").get<std::vector<std::int64_t>>();
  made.written = tensor.at("access") != "read";
  const DTypeInfo info = dtype_info(made.dtype);
  std::size_t elements = 1;
  for (const std::int64_t dim : made.dims) elements *= static_cast<std::size_t>(dim);
  if (tensor.contains("file")) {
    made.bytes = read_npy((folder / tensor.at("file").get<std::string>()).string()).bytes;
    if (made.bytes.size() != elements * static_cast<std::size_t>(info.bytes))
      throw std::runtime_error(made.name + " has another size");
  } else {
    made.bytes.assign(elements * static_cast<std::size_t>(info.bytes),
                      static_cast<char>(0xff));  // NaN, so that what is left shows
  }
  made.dl.device = {device, 0};
  made.dl.ndim = static_cast<std::int32_t>(made.dims.size());
  made.dl.dtype = info.dl;
  return made;
}

// The attributes of a case with the texts that they point at.
struct Attributes {
  std::vector<std::string> names, texts;
  std::vector<opforge_attribute> list;
};

Attributes attributes_of(const json& given) {
  Attributes made;
  made.names.reserve(given.size());
  made.texts.reserve(given.size());
  for (const auto& [name, value] : given.items()) {
    opforge_attribute attribute{};
    attribute.name = made.names.emplace_back(name).c_str();
    if (value.is_string()) {
      attribute.type = OPFORGE_ATTRIBUTE_TEXT;
      attribute.text = made.texts.emplace_back(value.get<std::string>()).c_str();
    } else if (value.is_number_float()) {
      attribute.type = OPFORGE_ATTRIBUTE_FLOAT;
      attribute.number = value;
    } else {
      attribute.type = OPFORGE_ATTRIBUTE_INT;
      attribute.integer = value.is_boolean() ? value.get<bool>() : value.get<std::int64_t>();
    }
    made.list.push_back(attribute);
  }
  return made;
}

opforge_contract contract_of(const std::string& name) {
  const std::map<std::string, opforge_contract> contracts = {
      {"", OPFORGE_CONTRACT_DEFAULT},
      {"FAST", OPFORGE_FAST},
      {"HIGH_PRECISION", OPFORGE_HIGH_PRECISION},
      {"DETERMINISTIC", OPFORGE_DETERMINISTIC}};
  return contracts.at(name);
}

// The worst error in units of the bound; infinite for a wrong special value.
double worst_share(const Argument& output, const json& tolerance, const fs::path& folder) {
  const auto expected =
      read_doubles((folder / tolerance.at("expected").get<std::string>()).string());
  const auto condition =
      read_doubles((folder / tolerance.at("condition").get<std::string>()).string());
  const DTypeInfo info = dtype_info(output.dtype);
  const double a = tolerance.at("a"), b = tolerance.at("b");
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got =
        element(output.bytes.data() + i * static_cast<std::size_t>(info.bytes), output.dtype);
    const bool special = !std::isfinite(got) || !std::isfinite(expected[i]);
    const bool same = got == expected[i] || (std::isnan(got) && std::isnan(expected[i]));
    double share = 0;
    if (special) {
      share = same ? 0 : INFINITY;
    } else if (!same) {
      share = std::fabs(got - expected[i]) /
              (a * ulp(expected[i], info) + b * std::ldexp(condition[i], -23));
    }
    worst = std::max(worst, share);
  }
  return worst;
}

bool run_case(opforge_context* context, const fs::path& folder, DLDeviceType device) {
  std::ifstream file(folder / "case.json");
  const json described = json::parse(file);
  const std::string op = described.at("op");
  std::vector<Argument> arguments;
  for (const json& tensor : described.at("tensors")) arguments.push_back(argument(tensor, folder, device));
  std::vector<const DLTensor*> tensors;
  std::vector<void*> data;
  for (Argument& one : arguments) {
    one.dl.shape = one.dims.data();
    one.dl.data = one.bytes.empty() ? nullptr : one.bytes.data();
    tensors.push_back(one.absent ? nullptr : &one.dl);
    data.push_back(one.dl.data);
  }
  const Attributes attributes = attributes_of(described.value("attributes", json::object()));
  opforge_call_options options;
  OPFORGE_INIT(options);
  options.contract = contract_of(described.value("contract", std::string()));

  opforge_plan* plan = nullptr;
  if (opforge_plan_create(context, op.c_str(), tensors.data(), tensors.size(),
                          attributes.list.data(), attributes.list.size(), &options,
                          &plan) != OPFORGE_OK) {
    std::printf("FAIL %s: %s\n", folder.c_str(), opforge_last_error());
    return false;
  }
  std::size_t workspace_bytes = 0;
  opforge_plan_workspace_bytes(plan, &workspace_bytes);
  std::vector<char> workspace(workspace_bytes + 256);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(workspace.data()) % 256;
  const opforge_status done = opforge_plan_execute(plan, data.data(), data.size(),
                                                   workspace.data() + (256 - past) % 256, nullptr);
  const opforge_plan_info* info = nullptr;
  opforge_plan_describe(plan, &info);
  bool good = done == OPFORGE_OK;
  double worst = 0;
  for (const Argument& one : arguments) {
    if (good && one.written)
      worst = std::max(worst, worst_share(one, described.at("tolerance").at(one.name), folder));
  }
  if (done != OPFORGE_OK) std::printf("FAIL %s: %s\n", folder.c_str(), opforge_last_error());
  good = good && worst <= 1;
  if (done == OPFORGE_OK)
    std::printf("%-4s %s: %.3f of the bound, %s\n", good ? "ok" : "FAIL", folder.c_str(), worst,
                info->variant);
  opforge_plan_destroy(plan);
  return good;
}

int run(const char* pack, const char* key, const char* cases, DLDeviceType device) {
  opforge_seal();
  opforge_context* context = nullptr;
  if (opforge_context_create(nullptr, &context) != OPFORGE_OK) stop("context");
  opforge_pack_options trust;
  OPFORGE_INIT(trust);
  trust.trusted_keys = &key;
  trust.trusted_key_count = 1;
  trust.only_named_keys = 1;
  if (opforge_pack_open(context, pack, &trust) != OPFORGE_OK) stop("pack");
  list(context);

  std::vector<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(cases)) {
    if (entry.path().filename() == "case.json") folders.push_back(entry.path().parent_path());
  }
  std::sort(folders.begin(), folders.end());
  std::size_t failed = 0;
  for (const fs::path& folder : folders) failed += run_case(context, folder, device) ? 0 : 1;
  char digest[65];
  opforge_choices_digest(context, digest);
  std::printf("%zu cases, %zu failed; choices %.16s\n", folders.size(), failed, digest);
  opforge_context_destroy(context);
  return failed == 0 && !folders.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // An OpenCL device that is the CPU itself (PoCL) reads this program's own memory.
  const bool opencl = argc == 5 && std::string(argv[4]) == "opencl";
  if (argc != 4 && !opencl) {
    std::fprintf(stderr, "usage: %s PACK KEY CASES [opencl]\n", argv[0]);
    return 2;
  }
  try {
    return run(argv[1], argv[2], argv[3], opencl ? kDLOpenCL : kDLCPU);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
