#include "base/result.hpp"

namespace opforge {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kInvalidDeclaration:
      return "invalid_declaration";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kContractUnsatisfied:
      return "contract_unsatisfied";
    case Code::kCompilationSealed:
      return "compilation_sealed";
    case Code::kBackendNotEligible:
      return "backend_not_eligible";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUntrusted:
      return "untrusted";
    case Code::kIncompatible:
      return "incompatible";
    case Code::kIo:
      return "io";
    case Code::kToolchain:
      return "toolchain";
    case Code::kDriver:
      return "driver";
    case Code::kOutOfMemory:
      return "out_of_memory";
    case Code::kTimeout:
      return "timeout";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace opforge
