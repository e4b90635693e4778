// What the catalogue offers, cell by cell, for the parameterised tests here and for the mutants.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "artifact/store.hpp"
#include "forge/catalogue.hpp"
#include "forge/compile.hpp"
#include "operator/languages.hpp"
#include "operator/operator.hpp"
#include "runtime/backends.hpp"
#include "runtime/seal.hpp"
#include "verify/suite.hpp"

namespace opforge::conformance {

struct Cell {
  std::string op, backend;
  Tier tier;
  DTypeCombo dtypes;
  // Kernels in the languages above C++ take a second or more to compile, each: of every such
  // backend, the quick tests take one operator, with one dtype at its strictest tier; the others
  // have a name that ends in "_long".
  bool takes_long = false;
  std::string name() const;  // "norm_rms_norm_cpu_FAST_bf16": a test's name
};
inline void PrintTo(const Cell& cell, std::ostream* out) { *out << cell.name(); }

inline const Catalogue& catalogue() {
  static const Catalogue& loaded = *[] {
    auto result = load_catalogue();
    if (!result) throw std::runtime_error(result.error().message);
    return new Catalogue(std::move(*result));
  }();
  return loaded;
}

// Kept in the build folder, so that an unchanged kernel is compiled once for all runs of the tests.
inline Store& store() {
  develop();  // these tests compile
  static Store& opened = *[] {
    auto result = Store::open(Path(OPFORGE_BINARY_DIR) / "conformance-store");
    if (!result) throw std::runtime_error(result.error().message);
    return new Store(std::move(*result));
  }();
  return opened;
}

// "bf16", "bf16_f32".
inline std::string dtypes_name(const DTypeCombo& combo) {
  std::vector<std::string> names;
  for (const auto& [variable, dtype] : combo) names.emplace_back(dtype_name(dtype));
  const bool same = std::all_of(names.begin(), names.end(),
                                [&](const std::string& name) { return name == names.front(); });
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : "_") + name;
    if (same) break;
  }
  return out.empty() ? "none" : out;
}

inline std::string Cell::name() const {
  std::string out = op + "_" + backend + "_" + std::string(tier_name(tier)) + "_" +
                    dtypes_name(dtypes) + (takes_long ? "_long" : "");
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return out;
}

inline bool has_dtypes(const KernelDecl& kernel, const DTypeCombo& dtypes) {
  return kernel.dtypes.empty() ||
         std::find(kernel.dtypes.begin(), kernel.dtypes.end(), dtypes) != kernel.dtypes.end();
}

// Kernels of the cell with exactly its tier; where there are none, stricter ones that stand in.
inline std::vector<const KernelDecl*> kernels_of(const Cell& cell, bool* stand_in = nullptr) {
  std::vector<const KernelDecl*> exact, stricter;
  const Operator* op = catalogue().find(cell.op);
  for (const KernelDecl& kernel : op->kernels) {
    if (kernel.backend != cell.backend || !has_dtypes(kernel, cell.dtypes)) continue;
    if (kernel.tier == cell.tier)
      exact.push_back(&kernel);
    else if (satisfies(kernel.tier, cell.tier))
      stricter.push_back(&kernel);
  }
  if (stand_in != nullptr) *stand_in = exact.empty();
  return exact.empty() ? stricter : exact;
}

// Every operator x backend x tier that a kernel satisfies x dtypes.
inline std::vector<Cell> all_cells() {
  std::vector<Cell> out;
  std::map<std::string, const Operator*> first;  // of the backends in a language above C++
  const auto takes_long = [&](const Operator& op, const Cell& cell) {
    const auto kernels = kernels_of(cell);
    if (language_level(*kernels.front(), {}) != kTileLevel) return false;
    const bool chosen = first.try_emplace(cell.backend, &op).first->second == &op;
    const bool strictest = std::none_of(kAllTiers.begin(), kAllTiers.end(), [&](Tier tier) {
      return tier != cell.tier && satisfies(tier, cell.tier) &&
             !kernels_of({cell.op, cell.backend, tier, cell.dtypes}).empty();
    });
    return !chosen || !strictest || cell.dtypes != op.signature.dtypes.front();
  };
  for (const Operator* op : catalogue().all()) {
    std::set<std::string> backends;
    for (const KernelDecl& kernel : op->kernels) backends.insert(kernel.backend);
    for (const std::string& backend : backends) {
      for (const Tier tier : kAllTiers) {
        for (const DTypeCombo& dtypes : op->signature.dtypes) {
          Cell cell{op->signature.name, backend, tier, dtypes};
          if (kernels_of(cell).empty()) continue;
          cell.takes_long = takes_long(*op, cell);
          out.push_back(std::move(cell));
        }
      }
    }
  }
  return out;
}

// Default variants of a kernel over its declared test and build cases and all values of baked
// attributes, each once.
inline std::vector<Variant> variants_of(const Operator& op, const KernelDecl& kernel,
                                        const DTypeCombo& dtypes, const Target& target) {
  std::vector<ValueMap> baked{{}};
  for (const AttrArg& attribute : op.signature.attributes) {
    if (!attribute.baked) continue;
    std::vector<Value> values = attribute.baked_values;
    if (values.empty() && attribute.type == AttrType::kBool)
      values = {std::int64_t{0}, std::int64_t{1}};
    std::vector<ValueMap> longer;
    for (const ValueMap& map : baked) {
      for (const Value& value : values) {
        longer.push_back(map);
        longer.back()[attribute.name] = value;
      }
    }
    if (!values.empty()) baked = std::move(longer);
  }
  std::vector<Variant> out;
  std::set<std::string> seen;
  for (const Case& each : op.cases) {
    if ((each.uses & (unsigned(CaseUse::kTest) | unsigned(CaseUse::kBuild))) == 0) continue;
    for (const ValueMap& values : baked) {
      ValueMap attributes = each.attributes;
      for (const auto& [name, value] : values) attributes[name] = value;
      auto variants = default_variants(op, kernel, {each.dims, attributes, dtypes}, target);
      EXPECT_TRUE(variants) << variants.error().message;
      if (!variants) return out;
      for (Variant& variant : *variants) {
        if (seen.insert(to_string(variant)).second) out.push_back(std::move(variant));
      }
    }
  }
  return out;
}

// The device that runs code of this backend here, with its best target. False: none, `why` says so,
// and `target` is one that the backend can compile for all the same.
inline bool find_device(const Operator& op, const KernelDecl& kernel, const DTypeCombo& dtypes,
                        DeviceInfo& device, Target& target, std::string& why) {
  for (const DeviceInfo& each : all_devices()) {
    for (const Target& candidate : native_targets(each)) {
      const Support support = compiles_for(op, kernel, dtypes, candidate);
      if (!support) continue;
      device = each;
      target = candidate;
      return true;
    }
  }
  why = "no device here runs " + kernel.backend + " kernels";
  for (const char* name : {"x86-64-v3", "sm_90a", "sm_80", "compute_80", "opencl:pocl"}) {
    const auto parsed = parse_target(name);
    if (parsed && compiles_for(op, kernel, dtypes, *parsed)) {
      target = *parsed;
      return false;
    }
  }
  return false;
}

}  // namespace opforge::conformance
