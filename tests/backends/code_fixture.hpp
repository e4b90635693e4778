// Loads compiled CPU code as it is, and calls its block function with hand-made slots.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "toolchain/kernel_fixture.hpp"

namespace opforge::test {

using BlockFunction = void (*)(const void* arguments, std::int64_t begin, std::int64_t end);

class OpenCode {
 public:
  OpenCode(const std::string& code, const std::string& symbol) {
    put(folder_ / "code.so", code);
    handle_ = dlopen((folder_ / "code.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr)
      function = reinterpret_cast<BlockFunction>(dlsym(handle_, symbol.c_str()));
  }
  ~OpenCode() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  OpenCode(const OpenCode&) = delete;
  OpenCode& operator=(const OpenCode&) = delete;
  BlockFunction function = nullptr;

 private:
  Folder folder_;
  void* handle_ = nullptr;
};

// The argument block: a slot of 8 bytes for each parameter.
class Slots {
 public:
  template <class T>
  Slots& add(T value) {
    std::uint64_t slot = 0;
    static_assert(sizeof(T) <= 8);
    std::memcpy(&slot, &value, sizeof value);
    slots_.push_back(slot);
    return *this;
  }
  const void* data() const { return slots_.data(); }

 private:
  std::vector<std::uint64_t> slots_;
};

inline std::uint16_t to_bf16(float value) {
  std::uint16_t bits;
  store_from_double(&bits, DType::kBF16, value);
  return bits;
}

inline Result<Compiled> compile(const Operator& op, const KernelDecl& kernel,
                                const Variant& variant) {
  develop();
  CompileRequest request;
  request.op = &op;
  request.kernel = &kernel;
  request.variant = variant;
  OPFORGE_ASSIGN(request.target, parse_target(variant.target));
  Toolchain* toolchain = find_toolchain(kernel.backend, request.target);
  if (toolchain == nullptr) return fail(Code::kNotFound, "no toolchain for " + variant.target);
  OPFORGE_TRY(code_key(*toolchain, request));
  return toolchain->compile(request);
}

inline Result<Digest> key_of(const Operator& op, const Variant& variant) {
  return variant_key(op, op.kernels.front(), variant);
}

}  // namespace opforge::test
