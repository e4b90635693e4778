// What every C function shares: statuses, the thread's last error, checked handles, text results.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "opforge/opforge.h"
#include "runtime/runtime.hpp"

namespace opforge::capi {

opforge_status status_of(Code code);
opforge_contract contract_of(Tier tier);
Result<std::optional<Contract>> contract_from(opforge_contract contract);

// Keeps the message for opforge_last_error() and gives the status of the code. Never throws.
opforge_status failed(const Error& error) noexcept;
opforge_status failed(Code code, std::string_view message) noexcept;

// Runs a body that returns opforge_status. Nothing thrown inside comes out.
template <class Body>
opforge_status guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return failed(Code::kOutOfMemory, "out of memory");
  } catch (const std::exception& exception) {
    return failed(Code::kInternal, exception.what());
  } catch (...) {
    return failed(Code::kInternal, "an exception of unknown type");
  }
}

// A copy that opforge_text_free() frees.
inline opforge_status give_text(std::string_view text, char** into) {
  if (into == nullptr) return failed(Code::kInvalidArgument, "the place for the text is null");
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  *into = copy;
  return OPFORGE_OK;
}

// Handles point at slots that are never freed and are used again only after many others, so that a
// handle that was destroyed is recognised instead of followed.
enum class Tag : std::uint64_t {
  kFree = 0,
  kContext = 0x6f7066436f6e7478,   // "opfContx"
  kPlan = 0x6f7066506c616e31,      // "opfPlan1"
  kOperator = 0x6f70664f70657231,  // "opfOper1"
};

struct Slot {
  Tag tag = Tag::kFree;
  void* object = nullptr;
};
Slot* take_slot(Tag tag, void* object);
void free_slot(Slot* slot) noexcept;

// The object behind a handle, or null with the error kept.
template <class T>
T* object_of(const void* handle, Tag tag, const char* what) noexcept {
  const auto* slot = static_cast<const Slot*>(handle);
  const bool plausible =
      slot != nullptr && reinterpret_cast<std::uintptr_t>(slot) % alignof(Slot) == 0;
  if (plausible && slot->tag == tag) [[likely]]
    return static_cast<T*>(slot->object);
  std::string_view problem = slot == nullptr ? " is null" : " is of another kind, or was destroyed";
  try {
    failed(Code::kInvalidArgument, std::string(what) + std::string(problem));
  } catch (...) {
    failed(Code::kInvalidArgument, "a handle is not good");
  }
  return nullptr;
}

// Options structs grow at their end: what an older caller does not have is zero.
template <class T>
Result<T> options_from(const T* given) {
  T options{};
  if (given == nullptr) return options;
  std::size_t size = given->struct_size;
  if (size < sizeof(std::size_t)) {
    return fail(Code::kInvalidArgument, "struct_size of the options is not set: use OPFORGE_INIT");
  }
  if (size > sizeof(T)) {
    // A newer caller: fine as long as it uses nothing that this library does not know.
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (std::size_t i = sizeof(T); i < size; ++i) {
      if (bytes[i] != 0)
        return fail(Code::kInvalidArgument,
                    "the options ask for what this version of opforge does not know");
    }
    size = sizeof(T);
  }
  std::memcpy(&options, given, size);
  return options;
}

}  // namespace opforge::capi
