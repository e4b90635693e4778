// Failures are values: Result<T> holds a T or an Error. Nothing in opforge throws across a function of this project.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace opforge {

// What kind of failure. C status codes (include/opforge/opforge.h) and shell exit codes are made from these.
enum class Code {
  kInvalidArgument,      // the caller's input is wrong (shape, dtype, name, flag)
  kInvalidDeclaration,   // an operator or kernel declaration is wrong
  kNotFound,             // a named thing does not exist (operator, backend, file, key)
  kUnavailable,          // cannot run here now; the caller may route elsewhere
  kContractUnsatisfied,  // no kernel is strict enough for the asked contract
  kCompilationSealed,    // the process is sealed (or in production mode) and a compile would be needed
  kBackendNotEligible,   // a backend that was named in the call cannot serve it
  kCorrupt,              // stored bytes fail their digest, are truncated or malformed
  kUntrusted,            // a signature is missing, wrong or of a key that is not trusted
  kIncompatible,         // wrong architecture, driver, schema or toolkit version
  kIo,                   // the operating system refused (path and errno text in the message)
  kToolchain,            // a compiler is missing, failed or gave nothing
  kDriver,               // a device driver call failed
  kOutOfMemory,
  kTimeout,
  kCancelled,            // interrupted by the user
  kInternal,             // a bug in opforge
};

// The stable snake_case name of a code, for JSON and logs.
std::string_view code_name(Code code);

struct [[nodiscard]] Error {
  Code code;
  std::string message;  // names the thing, what was expected, what came, and what to do
  std::string where;    // the subsystem or file that noticed, e.g. "artifact/pack"; may be empty
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Code code, std::string message, std::string where = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(where)});
}
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace opforge

// Return early with the error of a Status or Result expression.
#define OPFORGE_TRY(expr)                                                        \
  do {                                                                           \
    if (auto opforge_status_ = (expr); !opforge_status_) [[unlikely]]            \
      return ::opforge::fail(std::move(opforge_status_.error()));                \
  } while (0)
#define OPFORGE_CONCAT_(a, b) a##b
#define OPFORGE_CONCAT(a, b) OPFORGE_CONCAT_(a, b)
// OPFORGE_ASSIGN(auto x, f()); declares x from a Result or returns its error.
#define OPFORGE_ASSIGN(decl, expr)                                                         \
  auto OPFORGE_CONCAT(opforge_result_, __LINE__) = (expr);                                 \
  if (!OPFORGE_CONCAT(opforge_result_, __LINE__)) [[unlikely]]                             \
    return ::opforge::fail(std::move(OPFORGE_CONCAT(opforge_result_, __LINE__).error()));  \
  decl = std::move(*OPFORGE_CONCAT(opforge_result_, __LINE__))
