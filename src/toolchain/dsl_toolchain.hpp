// What the toolchains of all Python DSLs have in common: an environment, its identity, the sources
// of a kernel, a pool of workers, and checks of what came out. A backend adds which targets it
// serves, the question to its worker, and the launch record made of the answer.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/cubin.hpp"
#include "toolchain/dsl_worker.hpp"
#include "toolchain/toolchain.hpp"
#include "toolchain/venv.hpp"

namespace opforge {

struct DslInfo {
  std::string backend;  // also the folder under backends/ and the name of the environment: "triton"
  std::string package;  // the distribution whose version counts: "triton", "cuda-tile"
  std::vector<std::string> minors;                 // versions that are served: {"3.6", "3.9"}
  std::map<std::string, std::string> environment;  // of its workers, see DslWorkerSpec
  double time_limit_s = 300;
  std::uint64_t memory_limit_bytes = std::uint64_t{8} << 30;
};

class DslToolchain : public Toolchain {
 public:
  std::string_view backend() const override { return info_.backend; }
  // No when the environment is missing or damaged, its version is not among `minors` (they are
  // named), or worker.py is missing. Runs no Python.
  Support available() override;
  Result<ToolchainStamp> stamp() override;
  // The kernel's own files and those of backends/<dsl>/include that it imports, the worker's
  // scripts, and what inputs() adds.
  Status fingerprint(const CompileRequest& request, Fingerprint& into) override;

 protected:
  explicit DslToolchain(DslInfo info) : info_(std::move(info)) {}
  // More that reaches the code: another compiler's digest, option checks. Errors refuse the
  // variant.
  virtual Status inputs(const CompileRequest& request, Fingerprint& into);

  // job["source"] and job["variant"] (variant_json) are filled in here.
  Result<DslAnswer> ask(const CompileRequest& request, nlohmann::json job);
  Result<std::shared_ptr<const Venv>> environment();
  const DslInfo& info() const { return info_; }

 private:
  Result<SourceSet> sources(const CompileRequest& request) const;
  Path script() const;

  DslInfo info_;
  std::mutex mutex_;
  std::shared_ptr<DslWorkers> workers_;  // of the environment with this digest
  Digest workers_digest_;
};

// What a worker must know of a variant: {"op", "kernel", "target", "device", "arch", "values":
// {..}, "baked": {..}, "dtypes": {"T": "bf16"}}.
nlohmann::json variant_json(const CompileRequest& request);

// "softmax.triton.row{T=f32}[...]@sm_90a of reduction.softmax", for messages.
std::string dsl_subject(const CompileRequest& request);

// The dtype of the tensor that a pointer or descriptor binding points into; none for the workspace
// and null. kInvalidDeclaration when the tensor's dtype is no variable of the variant.
Result<std::optional<DType>> pointee(const CompileRequest& request, const Binding& binding);

// Options of a kernel are "name=expression" over the variant's values, baked attributes and dtypes:
// "num_warps=NUM_WARPS". kInvalidDeclaration for one that is not in `known`, since DSLs pass over
// what they do not know.
Result<std::map<std::string, std::int64_t>> dsl_options(const CompileRequest& request,
                                                        std::span<const std::string_view> known);
// An expression over the variant's values, baked attributes and dtypes.
Result<std::int64_t> variant_integer(const CompileRequest& request, std::string_view text);

// Which entries of a comma-separated list after "name=" or "name(condition)=" of the options hold:
// "divisible_by_16(D16)=x,y,x_row" gives {x,y,x_row} where D16 is not 0. Such options are left out
// of dsl_options().
Result<std::vector<std::string>> dsl_option_list(const CompileRequest& request,
                                                 std::string_view name);

// kToolchain when a block of so many threads, or so much shared memory (static included), is more
// than any device of the target has: DSLs build such code without a word.
Status check_block_limits(const Target& target, std::int64_t threads, std::int64_t shared_bytes,
                          std::string_view subject);

// A compiled kernel's parameter table against the sizes that the launch record passes, in order.
// kToolchain names the first difference.
Status check_parameters(const CubinKernel& kernel, std::span<const std::uint32_t> sizes,
                        std::string_view subject);
// Sizes of a step's parameters, in order.
std::vector<std::uint32_t> parameter_sizes(const LaunchStep& step);

}  // namespace opforge
