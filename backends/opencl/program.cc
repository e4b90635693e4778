#include "backends/opencl/program.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace opforge::ocl {
namespace {

constexpr const char* kWhere = "backends/opencl/program";

std::string build_log(const Icd& icd, cl_program program, cl_device_id device) {
  std::size_t size = 0;
  if (program == nullptr || icd.program_build_info(program, device, CL_PROGRAM_BUILD_LOG, 0,
                                                   nullptr, &size) != CL_SUCCESS)
    return {};
  std::string log(size, '\0');
  icd.program_build_info(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return std::string(trim(log.c_str()));
}

}  // namespace

// Compiled and linked apart, not built at once: PoCL leaves the random name of a temporary file in
// the code of a program that was built at once, and a linked program has none.
Result<BuiltProgram> build_source(const Icd& icd, const OpenClDevice& device,
                                  const std::string& source,
                                  const std::vector<std::string>& options, std::string_view what) {
  const char* text = source.data();
  const std::size_t size = source.size();
  cl_int error = CL_SUCCESS;
  Program object(icd, icd.program_with_source(device.context, 1, &text, &size, &error));
  OPFORGE_TRY(check(error, "clCreateProgramWithSource", what));
  const auto failed = [&](const char* entry, const std::string& log) {
    return fail(Code::kToolchain,
                fmt::format("{}: {} of {} says {}{}{}", what, entry, device.info.model,
                            error_name(error), log.empty() ? "" : ":\n", log),
                kWhere);
  };
  error = icd.compile_program(object.get(), 1, &device.id, join(options, " ").c_str(), 0, nullptr,
                              nullptr, nullptr, nullptr);
  BuiltProgram built;
  built.log = build_log(icd, object.get(), device.id);
  if (error != CL_SUCCESS) return failed("clCompileProgram", built.log);
  cl_program input = object.get();
  cl_program linked =
      icd.link_program(device.context, 1, &device.id, "", 1, &input, nullptr, nullptr, &error);
  if (linked != nullptr) built.program = std::make_unique<Program>(icd, linked);
  if (error != CL_SUCCESS || linked == nullptr)
    return failed("clLinkProgram", build_log(icd, linked, device.id));
  return built;
}

Result<std::unique_ptr<Program>> load_binary(const Icd& icd, const OpenClDevice& device,
                                             const std::string& binary, std::string_view what) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t size = binary.size();
  cl_int status = CL_SUCCESS, error = CL_SUCCESS;
  cl_program handle =
      icd.program_with_binary(device.context, 1, &device.id, &size, &bytes, &status, &error);
  std::unique_ptr<Program> program;
  if (handle != nullptr) program = std::make_unique<Program>(icd, handle);
  if (error == CL_SUCCESS && handle != nullptr) {
    if (status != CL_SUCCESS) error = status;
    if (error == CL_SUCCESS) error = icd.build_program(handle, 1, &device.id, "", nullptr, nullptr);
    if (error == CL_SUCCESS) return program;
  }
  return fail(Code::kIncompatible,
              fmt::format("{}: the driver of {} does not take the binary: {}", what,
                          device.info.model, error_name(error)),
              kWhere);
}

Result<std::string> binary_of(const Icd& icd, const Program& program, std::string_view what) {
  std::size_t size = 0;
  OPFORGE_TRY(
      check(icd.program_info(program.get(), CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr),
            "clGetProgramInfo", what));
  std::string binary(size, '\0');
  auto* at = reinterpret_cast<unsigned char*>(binary.data());
  OPFORGE_TRY(check(icd.program_info(program.get(), CL_PROGRAM_BINARIES, sizeof at, &at, nullptr),
                    "clGetProgramInfo", what));
  if (size == 0) {
    return fail(Code::kToolchain, fmt::format("{}: the driver gave no binary", what), kWhere);
  }
  return binary;
}

}  // namespace opforge::ocl
