// opforge ops, opforge show
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "forge/catalogue.hpp"
#include "operator/languages.hpp"

namespace opforge::cli {
namespace {

std::string dtype_list(const std::vector<DTypeCombo>& combos) {
  std::vector<std::string> parts;
  for (const DTypeCombo& combo : combos) {
    std::set<DType> types;
    for (const auto& [variable, dtype] : combo) types.insert(dtype);
    if (types.size() == 1) {
      parts.emplace_back(dtype_name(*types.begin()));
    } else {
      parts.push_back("(" + to_string(combo) + ")");
    }
  }
  return join(parts, " ");
}

const std::vector<DTypeCombo>& combos_of(const Operator& op, const KernelDecl& kernel) {
  return kernel.dtypes.empty() ? op.signature.dtypes : kernel.dtypes;
}

nlohmann::json kernel_json(const Operator& op, const KernelDecl& kernel) {
  nlohmann::json dtypes = nlohmann::json::array();
  for (const DTypeCombo& combo : combos_of(op, kernel)) {
    nlohmann::json one = nlohmann::json::object();
    for (const auto& [variable, dtype] : combo) one[variable] = dtype_name(dtype);
    dtypes.push_back(one);
  }
  nlohmann::json tunables = nlohmann::json::array();
  for (const Tunable& tunable : kernel.tunables) {
    tunables.push_back({{"name", tunable.name},
                        {"values", tunable.values},
                        {"initial", tunable.initial},
                        {"changes_bits", tunable.changes_bits},
                        {"specialisation", tunable.specialisation}});
  }
  nlohmann::json guards = nlohmann::json::array();
  for (const Guard& guard : kernel.launch.guards) guards.push_back({{"expr", guard.expr}, {"reason", guard.reason}});
  const char* reasons[] = {"", "missing primitive", "performance gap"};
  return {{"id", kernel.id},
          {"backend", kernel.backend},
          {"tier", tier_name(kernel.tier)},
          {"description", kernel.description},
          {"sources", kernel.sources},
          {"dtypes", dtypes},
          {"tunables", tunables},
          {"constraints", kernel.constraints},
          {"guards", guards},
          {"reason", {{"kind", reasons[static_cast<int>(kernel.reason.kind)]},
                      {"text", kernel.reason.text},
                      {"benchmark", kernel.reason.benchmark}}}};
}

nlohmann::json bound_json(const Bound& bound) { return {{"a_ulp", bound.a}, {"b_eps32", bound.b}}; }

nlohmann::json operator_json(const Operator& op) {
  nlohmann::json tensors = nlohmann::json::array();
  const char* access[] = {"read", "write", "update"};
  for (const TensorArg& arg : op.signature.tensors) {
    tensors.push_back({{"name", arg.name},
                       {"dims", arg.dims},
                       {"dtype", arg.dtype},
                       {"access", access[static_cast<int>(arg.access)]},
                       {"optional", arg.optional},
                       {"may_alias", arg.may_alias}});
  }
  nlohmann::json attributes = nlohmann::json::array();
  const char* types[] = {"int", "float", "bool", "text"};
  for (const AttrArg& arg : op.signature.attributes) {
    nlohmann::json one = {{"name", arg.name}, {"type", types[static_cast<int>(arg.type)]}, {"baked", arg.baked}};
    if (arg.default_value) std::visit([&](const auto& held) { one["default"] = held; }, *arg.default_value);
    if (!arg.choices.empty()) one["choices"] = arg.choices;
    if (arg.min) one["min"] = *arg.min;
    if (arg.max) one["max"] = *arg.max;
    attributes.push_back(one);
  }
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelDecl& kernel : op.kernels) kernels.push_back(kernel_json(op, kernel));
  nlohmann::json cases = nlohmann::json::array();
  for (const Case& each : op.cases) {
    cases.push_back({{"name", each.name},
                     {"dims", to_json(each.dims)},
                     {"attributes", to_json(each.attributes)},
                     {"test", (each.uses & 1) != 0},
                     {"build", (each.uses & 2) != 0},
                     {"bench", (each.uses & 4) != 0}});
  }
  return {{"name", op.signature.name},
          {"description", op.description},
          {"formula", op.formula},
          {"default_contract", tier_name(op.signature.default_contract)},
          {"reduced_dims", op.signature.reduced_dims},
          {"backend_priority", op.signature.backend_priority},
          {"data_contracts", op.data_contracts},
          {"tensors", tensors},
          {"attributes", attributes},
          {"tolerances", {{"fast", bound_json(op.tolerances.fast)},
                          {"high_precision", bound_json(op.tolerances.high_precision)}}},
          {"work", {{"bytes_read", op.work.bytes_read},
                    {"bytes_written", op.work.bytes_written},
                    {"flops", op.work.flops}}},
          {"kernels", kernels},
          {"cases", cases}};
}

Result<int> run_ops(const Common& common) {
  OPFORGE_ASSIGN(Catalogue catalogue, load_catalogue(common.plugins));
  const auto ops = catalogue.all();
  Table table({"operator", "backend", "tiers", "dtypes", "kernels"});
  nlohmann::json json = nlohmann::json::array();
  for (const Operator* op : ops) {
    json.push_back(operator_json(*op));
    std::map<std::string, std::vector<const KernelDecl*>> by_backend;
    for (const KernelDecl& kernel : op->kernels) by_backend[kernel.backend].push_back(&kernel);
    std::string name = op->signature.name;
    for (const auto& [backend, kernels] : by_backend) {
      std::set<Tier> tiers;
      std::vector<DTypeCombo> combos;
      for (const KernelDecl* kernel : kernels) {
        tiers.insert(kernel->tier);
        for (const DTypeCombo& combo : combos_of(*op, *kernel)) {
          if (std::find(combos.begin(), combos.end(), combo) == combos.end()) combos.push_back(combo);
        }
      }
      std::vector<std::string> tier_names;
      for (Tier tier : tiers) {
        tier_names.push_back(std::string(tier_name(tier)) + (tier == op->signature.default_contract ? "*" : ""));
      }
      table.row({name, backend, join(tier_names, " "), dtype_list(combos), std::to_string(kernels.size())});
      name.clear();
    }
  }
  LowLevelShare share;
  for (const Operator* op : ops) share += low_level_share(*op);
  std::string text = table.text();
  text += fmt::format("\n{} operators, {} kernels beside the references; {} of them state why a lower-level language is used ({:.0f} %)\n",
                      ops.size(), share.kernels, share.lower,
                      100 * share.share());
  text += "* the operator's default contract\n";
  return finish(common, text,
                {{"operators", json},
                 {"lower_level",
                  {{"kernels", share.kernels},
                   {"with_reason", share.lower},
                   {"missing_primitive", share.missing_primitive},
                   {"performance_gap", share.performance_gap}}}});
}

std::string show_text(const Operator& op) {
  std::string out = fmt::format("{}: {}\n\n  {}\n\n", op.signature.name, op.description, op.formula);
  Table args({"argument", "dims", "dtype", "access", "notes"});
  const char* access[] = {"read", "write", "update"};
  for (const TensorArg& arg : op.signature.tensors) {
    std::vector<std::string> notes;
    if (arg.optional) notes.emplace_back("optional");
    if (!arg.may_alias.empty()) notes.push_back("may be the same memory as " + join(arg.may_alias, ", "));
    args.row({arg.name, "[" + join(arg.dims, ", ") + "]", arg.dtype, access[static_cast<int>(arg.access)],
              join(notes, "; ")});
  }
  out += args.text();
  for (const AttrArg& attr : op.signature.attributes) {
    out += fmt::format("{}{}{}{}\n", attr.name, attr.default_value ? " = " + to_string(*attr.default_value) : " (required)",
                       attr.choices.empty() ? "" : " (one of " + join(attr.choices, ", ") + ")",
                       attr.baked ? ", compiled in" : "");
  }
  std::vector<std::string> combos;
  for (const DTypeCombo& combo : op.signature.dtypes) combos.push_back(to_string(combo));
  out += fmt::format("\ndtypes            {}\n", join(combos, "; "));
  out += fmt::format("default contract  {}\n", tier_name(op.signature.default_contract));
  out += fmt::format("error bounds      FAST {} ulp + {} eps32 x condition; HIGH_PRECISION, DETERMINISTIC {} ulp + {} eps32 x condition\n",
                     op.tolerances.fast.a, op.tolerances.fast.b, op.tolerances.high_precision.a,
                     op.tolerances.high_precision.b);
  out += fmt::format("work              reads {}, writes {} bytes; {} FLOPs\n", op.work.bytes_read,
                     op.work.bytes_written, op.work.flops);
  out += fmt::format("priority          {}\n\n", join(op.signature.backend_priority, ", "));
  for (const auto& [backend, line] : op.data_contracts) out += fmt::format("  {}: {}\n", backend, line);
  for (const KernelDecl& kernel : op.kernels) {
    out += fmt::format("\n{}  ({}, {})\n", kernel.id, kernel.backend, tier_name(kernel.tier));
    if (!kernel.description.empty()) out += fmt::format("  {}\n", kernel.description);
    for (const Tunable& tunable : kernel.tunables) {
      std::vector<std::string> values;
      for (std::int64_t value : tunable.values) values.push_back(std::to_string(value));
      out += fmt::format("  {} {} in {{{}}}{}{}\n", tunable.specialisation ? "specialisation" : "tunable       ",
                         tunable.name, join(values, ","),
                         tunable.initial.empty() ? "" : ", default " + tunable.initial,
                         tunable.changes_bits ? " (changes bits)" : "");
    }
    for (const std::string& constraint : kernel.constraints) out += fmt::format("  constraint     {}\n", constraint);
    for (const Guard& guard : kernel.launch.guards) out += fmt::format("  guard          {}  -- {}\n", guard.expr, guard.reason);
    if (kernel.reason.kind != ReasonKind::kNone) {
      out += fmt::format("  lower-level because of a {}: {}{}\n",
                         kernel.reason.kind == ReasonKind::kMissingPrimitive ? "missing primitive" : "performance gap",
                         kernel.reason.text, kernel.reason.benchmark.empty() ? "" : " (" + kernel.reason.benchmark + ")");
    }
  }
  Table cases({"\ncase", "dims", "used for"});
  for (const Case& each : op.cases) {
    std::vector<std::string> uses;
    if (each.uses & 1) uses.emplace_back("test");
    if (each.uses & 2) uses.emplace_back("build");
    if (each.uses & 4) uses.emplace_back("bench");
    std::string dims = to_text(each.dims);
    if (!each.attributes.empty()) dims += "  " + to_text(each.attributes);
    cases.row({each.name, dims, join(uses, " ")});
  }
  return out + cases.text();
}

}  // namespace

void add_ops(CLI::App& app) {
  auto common = std::make_shared<Common>();
  CLI::App* ops = app.add_subcommand("ops", "List operators x backends x tiers x dtypes (--json: the whole inventory)");
  add_common(*ops, *common);
  set_body(*ops, [common] { return run_ops(*common); });

  auto show_common = std::make_shared<Common>();
  auto name = std::make_shared<std::string>();
  CLI::App* show = app.add_subcommand("show", "Formula, arguments, kernels, tunables, bounds and cases of one operator");
  show->add_option("operator", *name, "e.g. norm.rms_norm")->required();
  add_common(*show, *show_common);
  set_body(*show, [show_common, name]() -> Result<int> {
    OPFORGE_ASSIGN(Catalogue catalogue, load_catalogue(show_common->plugins));
    OPFORGE_ASSIGN(const Operator* op, catalogue.get(*name));
    return finish(*show_common, show_text(*op), operator_json(*op));
  });
}

}  // namespace opforge::cli
