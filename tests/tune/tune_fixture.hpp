// A tune of a test operator on this machine's CPU, with real kernels, a store and a worker.
#pragma once

#include "forge/compile.hpp"
#include "tests/tune/test_operators.hpp"
#include "tune/tuner.hpp"

namespace opforge::test {

inline std::string cpu_target() { return detect_cpu().arch >= 3 ? "x86-64-v3" : "x86-64-v2"; }

inline TuneHooks hooks_for(const Operator& op, Store& store) {
  TuneHooks hooks;
  hooks.key = [&op](const Variant& variant) -> Result<Digest> {
    OPFORGE_ASSIGN(const KernelDecl* kernel, kernel_of(op, variant));
    return variant_key(op, *kernel, variant);
  };
  hooks.obtain = [&op, &store](const Variant& variant, bool* compiled) -> Result<BuiltCode> {
    OPFORGE_ASSIGN(const KernelDecl* kernel, kernel_of(op, variant));
    return obtain(op, *kernel, variant, store, compiled);
  };
  return hooks;
}

// `worker` is the path of opforge_tune_worker. The space is whatever the declaration allows, the
// baseline its default.
inline Result<TuneRequest> cpu_request(const Operator& op, Store& store,
                                       const std::string& worker) {
  TuneRequest request;
  request.op = &op;
  request.shape = {"small", op.cases.front().dims, {}, op.signature.dtypes.front()};
  request.device = detect_cpu();
  request.target = cpu_target();
  OPFORGE_ASSIGN(const Target target, parse_target(request.target));
  const ShapeRequest shape{request.shape.dims, {}, request.shape.dtypes};
  OPFORGE_ASSIGN(request.space, variant_space(op, op.kernels.front(), shape, target));
  OPFORGE_ASSIGN(const std::vector<Variant> defaults,
                 default_variants(op, op.kernels.front(), shape, target));
  if (defaults.empty()) return fail(Code::kInternal, "no default variant", "tests");
  request.baseline = defaults.front();
  request.hooks = hooks_for(op, store);
  request.cache = CacheMode::kWarm;
  request.prove = false;
  request.worker.argv = {worker};
  request.cancelled = [] { return false; };
  return request;
}

}  // namespace opforge::test
