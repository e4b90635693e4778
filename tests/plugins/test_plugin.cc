// Built once for each KIND_*: what an entry of a plug-in may return.
#include <stdexcept>

#include "forge/plugin.hpp"
#include "tests/operator/sample_operator.hpp"

namespace {

[[maybe_unused]] std::vector<opforge::Operator> make_operators() {
#if defined(KIND_THROWS)
  throw std::runtime_error("no luck today");
#elif defined(KIND_EMPTY)
  return {};
#else
  opforge::Operator op = opforge::testing_samples::sample_operator();
  op.signature.name = "outside.row_sum";
#if defined(KIND_INVALID)
  op.has_default_contract = false;
#endif
  opforge::Operator placed = op;
  placed.signature.name = "outside.placed";
  placed.folder = "elsewhere/placed";
  return {op, placed};
#endif
}

}  // namespace

#if defined(KIND_GOOD) || defined(KIND_THROWS) || defined(KIND_EMPTY) || defined(KIND_INVALID)
OPFORGE_PLUGIN("sample", make_operators)
#elif !defined(KIND_NO_ENTRY)
extern "C" __attribute__((visibility("default"))) const opforge::PluginV1* opforge_plugin_v1() {
  using namespace opforge;
  static PluginV1 plugin{kVersion, kPluginLibrary, kPluginLayout, "sample", &make_operators};
#if defined(KIND_OLD)
  plugin.opforge_version = "0.0.7";
#elif defined(KIND_OTHER_LIBRARY)
  plugin.library = "libc++";
#elif defined(KIND_OTHER_LAYOUT)
  plugin.layout ^= 1;
#elif defined(KIND_INCOMPLETE)
  plugin.operators = nullptr;
#elif defined(KIND_NULL_RECORD)
  return nullptr;
#endif
  return &plugin;
}
#endif
