// Programs in a driver: built from source or loaded from a binary.
#pragma once

#include <memory>

#include "backends/opencl/binary.hpp"

namespace opforge::ocl {

// Released with the last owner.
class Program {
 public:
  Program(const Icd& icd, cl_program handle) : icd_(icd), handle_(handle) {}
  ~Program() { icd_.release_program(handle_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  cl_program get() const { return handle_; }

 private:
  const Icd& icd_;
  cl_program handle_;
};

struct BuiltProgram {
  std::unique_ptr<Program> program;
  std::string log;
};
// Compiles and links. kToolchain with the compiler's own message.
Result<BuiltProgram> build_source(const Icd& icd, const OpenClDevice& device,
                                  const std::string& source,
                                  const std::vector<std::string>& options, std::string_view what);
// kIncompatible when the driver does not take it.
Result<std::unique_ptr<Program>> load_binary(const Icd& icd, const OpenClDevice& device,
                                             const std::string& binary, std::string_view what);
Result<std::string> binary_of(const Icd& icd, const Program& program, std::string_view what);

}  // namespace opforge::ocl
