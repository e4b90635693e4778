#include "capi/support.hpp"

#include <deque>
#include <mutex>

namespace opforge::capi {
namespace {

thread_local std::string last_error;

struct Slots {
  std::mutex mutex;
  std::deque<Slot> all;       // addresses stay
  std::deque<Slot*> waiting;  // freed, oldest first
};
Slots& slots() {
  static Slots& instance = *new Slots;  // handles may be destroyed after static destructors ran
  return instance;
}
constexpr std::size_t kQuarantine = 1024;

}  // namespace

opforge_status status_of(Code code) {
  switch (code) {
    case Code::kUnavailable:
      return OPFORGE_UNAVAILABLE;
    case Code::kInvalidArgument:
      return OPFORGE_INVALID_ARGUMENT;
    case Code::kInvalidDeclaration:
      return OPFORGE_INVALID_DECLARATION;
    case Code::kNotFound:
      return OPFORGE_NOT_FOUND;
    case Code::kContractUnsatisfied:
      return OPFORGE_CONTRACT_UNSATISFIED;
    case Code::kCompilationSealed:
      return OPFORGE_COMPILATION_SEALED;
    case Code::kBackendNotEligible:
      return OPFORGE_BACKEND_NOT_ELIGIBLE;
    case Code::kCorrupt:
      return OPFORGE_CORRUPT;
    case Code::kUntrusted:
      return OPFORGE_UNTRUSTED;
    case Code::kIncompatible:
      return OPFORGE_INCOMPATIBLE;
    case Code::kIo:
      return OPFORGE_IO;
    case Code::kToolchain:
      return OPFORGE_TOOLCHAIN;
    case Code::kDriver:
      return OPFORGE_DRIVER;
    case Code::kOutOfMemory:
      return OPFORGE_OUT_OF_MEMORY;
    case Code::kTimeout:
      return OPFORGE_TIMEOUT;
    case Code::kCancelled:
      return OPFORGE_CANCELLED;
    case Code::kInternal:
      return OPFORGE_INTERNAL;
  }
  return OPFORGE_INTERNAL;
}

opforge_contract contract_of(Tier tier) {
  switch (tier) {
    case Tier::kFast:
      return OPFORGE_FAST;
    case Tier::kHighPrecision:
      return OPFORGE_HIGH_PRECISION;
    case Tier::kDeterministic:
      return OPFORGE_DETERMINISTIC;
  }
  return OPFORGE_CONTRACT_DEFAULT;
}

Result<std::optional<Contract>> contract_from(opforge_contract contract) {
  switch (contract) {
    case OPFORGE_CONTRACT_DEFAULT:
      return std::optional<Contract>();
    case OPFORGE_FAST:
      return std::optional(Tier::kFast);
    case OPFORGE_HIGH_PRECISION:
      return std::optional(Tier::kHighPrecision);
    case OPFORGE_DETERMINISTIC:
      return std::optional(Tier::kDeterministic);
  }
  return fail(Code::kInvalidArgument,
              "contract is " + std::to_string(static_cast<int>(contract)) +
                  ", expected OPFORGE_CONTRACT_DEFAULT, FAST, HIGH_PRECISION or DETERMINISTIC");
}

opforge_status failed(Code code, std::string_view message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return status_of(code);
}

opforge_status failed(const Error& error) noexcept { return failed(error.code, error.message); }

Slot* take_slot(Tag tag, void* object) {
  std::lock_guard lock(slots().mutex);
  Slot* slot = nullptr;
  if (slots().waiting.size() > kQuarantine) {
    slot = slots().waiting.front();
    slots().waiting.pop_front();
  } else {
    slot = &slots().all.emplace_back();
  }
  *slot = Slot{tag, object};
  return slot;
}

void free_slot(Slot* slot) noexcept {
  std::lock_guard lock(slots().mutex);
  *slot = Slot{};
  try {
    slots().waiting.push_back(slot);
  } catch (...) {
    // Out of memory: this slot is not used again.
  }
}

}  // namespace opforge::capi

extern "C" {

const char* opforge_last_error(void) noexcept { return opforge::capi::last_error.c_str(); }

void opforge_text_free(char* text) noexcept { std::free(text); }

const char* opforge_status_name(opforge_status status) noexcept {
  if (status == OPFORGE_OK) return "ok";
  for (int code = 0; code <= static_cast<int>(opforge::Code::kInternal); ++code) {
    if (opforge::capi::status_of(static_cast<opforge::Code>(code)) == status) {
      return opforge::code_name(static_cast<opforge::Code>(code)).data();  // names are literals
    }
  }
  return "unknown";
}

}  // extern "C"
