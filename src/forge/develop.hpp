// Development: artifacts compiled from sources on demand, as a source that dispatch can use.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "artifact/store.hpp"
#include "forge/compile.hpp"
#include "operator/operator.hpp"

namespace opforge {

// Holds what want() compiled. Thread-safe. The catalogue must outlive it.
class DevelopmentSource : public ArtifactSource {
 public:
  DevelopmentSource(const Catalogue& catalogue, Store store) : catalogue_(catalogue), store_(std::move(store)) {}

  // Compile the default variants of every kernel (the reference too) for this shape and these targets, through the store.
  // Call it before dispatch asks for the section. Kernels whose toolchain is absent are left out and logged; a compile
  // failure is an error. kCompilationSealed when sealed and the store lacks something.
  Status want(std::string_view op, const ShapeRequest& shape, std::span<const Target> targets);

  std::string name() const override { return "sources"; }
  std::vector<std::string> operators() const override;
  Result<std::shared_ptr<const OperatorSection>> section(std::string_view op) override;
  Result<std::string> code(const Artifact& artifact) override;

 private:
  Status want_kernel(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape, const Target& target,
                     OperatorSection& section);

  const Catalogue& catalogue_;
  Store store_;
  std::mutex mutex_;
  std::map<std::string, OperatorSection, std::less<>> sections_;
  std::map<Digest, std::string> codes_;  // by code digest
};

}  // namespace opforge
