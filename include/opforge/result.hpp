// Failures as values, for the C++ headers.
#pragma once

#include <opforge/opforge.h>

#include <string>
#include <utility>
#include <variant>

namespace opforge {
// A namespace of its own, so that programs that are also built with the forge's headers do not mix
// the two.
inline namespace v1 {

struct Error {
  opforge_status status = OPFORGE_OK;
  std::string message;
};

// A T, or an Error. unavailable(): not an error of anybody; the caller routes elsewhere.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return state_.index() == 0; }
  bool unavailable() const { return !*this && error().status == OPFORGE_UNAVAILABLE; }
  // Of a failed result these are std::bad_variant_access: test it first.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  explicit operator bool() const { return error_.status == OPFORGE_OK; }
  bool unavailable() const { return error_.status == OPFORGE_UNAVAILABLE; }
  const Error& error() const { return error_; }
  // What `make` gives, unless this failed.
  template <class Make>
  auto map(Make&& make) const -> Result<decltype(make())> {
    if (!*this) return error_;
    return make();
  }

 private:
  Error error_;
};

namespace detail {

inline Result<void> check(opforge_status status) {
  if (status == OPFORGE_OK) return {};
  return Error{status, opforge_last_error()};
}

// The text that a C function gives, freed as it asks.
template <class Function>
Result<std::string> text(Function&& function) {
  char* given = nullptr;
  if (auto done = check(function(&given)); !done) return done.error();
  std::string copy(given);
  opforge_text_free(given);
  return copy;
}

}  // namespace detail
}  // namespace v1
}  // namespace opforge
