// opforge for C++17 and later: RAII and Result over the C functions of opforge.h. Header-only: no
// C++ object crosses the library's border.
//
//   auto context = opforge::Context::create().value();
//   context.open("kernels.ofpack").value();
//   auto done = context.call("norm.rms_norm", {x.dl(), w.dl(), y.dl()}, {{"eps", 1e-6}});
//   if (!done) std::cerr << done.error().message;   // or done.unavailable(): route elsewhere
#pragma once

#include <opforge/opforge.h>

#include <initializer_list>
#include <opforge/result.hpp>
#include <opforge/tensor.hpp>
#include <string>
#include <utility>
#include <vector>

namespace opforge {
inline namespace v1 {

// An attribute of a call. Texts must stay good during the call.
struct Attribute {
  Attribute(const char* name, double value) : c{name, OPFORGE_ATTRIBUTE_FLOAT, 0, value, nullptr} {}
  Attribute(const char* name, std::int64_t value)
      : c{name, OPFORGE_ATTRIBUTE_INT, value, 0, nullptr} {}
  Attribute(const char* name, int value) : Attribute(name, std::int64_t{value}) {}
  Attribute(const char* name, bool value) : c{name, OPFORGE_ATTRIBUTE_BOOL, value, 0, nullptr} {}
  Attribute(const char* name, const char* value) : c{name, OPFORGE_ATTRIBUTE_TEXT, 0, 0, value} {}
  opforge_attribute c;
};

// A list that is read during a call: of braces, a vector or an array. Copies nothing.
template <class T>
class List {
 public:
  List() = default;
  List(std::initializer_list<T> list) : size_(list.size()) {
    data_ = list.begin();  // which live until the end of the call's full expression
  }
  List(const std::vector<T>& list) : data_(list.data()), size_(list.size()) {}
  template <std::size_t kSize>
  List(const T (&list)[kSize]) : data_(list), size_(kSize) {}
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

using Tensors = List<const DLTensor*>;  // null: an optional tensor that is not given
using Attributes = List<Attribute>;

namespace detail {
static_assert(sizeof(Attribute) == sizeof(opforge_attribute),
              "a list of one is a list of the other");
inline const opforge_attribute* c_list(const Attributes& attributes) {
  return attributes.size() == 0 ? nullptr : &attributes.data()->c;
}
}  // namespace detail

struct CallOptions {
  opforge_contract contract = OPFORGE_CONTRACT_DEFAULT;
  const char* backend = nullptr;  // strict
  opforge_proof proof = OPFORGE_PROOF_DEFAULT;
  bool allow_ptx = false;
  void* stream = nullptr;
  bool lockstep = false;
  int rank = 0, world_size = 1;

  opforge_call_options c() const {
    opforge_call_options options;
    OPFORGE_INIT(options);
    options.contract = contract;
    options.backend = backend;
    options.proof = proof;
    options.allow_ptx = allow_ptx;
    options.stream = stream;
    options.lockstep = lockstep;
    options.rank = rank;
    options.world_size = world_size;
    return options;
  }
};

struct PackOptions {
  std::vector<std::string> trusted_keys;  // 64 hex digits, or paths
  bool only_named_keys = false;
  bool allow_unsigned = false;
};

// A call prepared for one kind of arguments.
class Plan {
 public:
  Plan(Plan&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Plan& operator=(Plan&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Plan() { opforge_plan_destroy(handle_); }

  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    opforge_plan_workspace_bytes(handle_, &bytes);
    return bytes;
  }
  std::size_t workspace_align() const {
    std::size_t align = 1;
    opforge_plan_workspace_align(handle_, &align);
    return align;
  }
  // Addresses of the first elements, in the order of the declaration.
  Result<void> execute(List<void*> data, void* workspace = nullptr, void* stream = nullptr) const {
    return detail::check(
        opforge_plan_execute(handle_, data.data(), data.size(), workspace, stream));
  }
  const opforge_plan_info& info() const {
    const opforge_plan_info* info = nullptr;
    opforge_plan_describe(handle_, &info);
    return *info;
  }
  opforge_plan* handle() const { return handle_; }

 private:
  friend class Context;
  explicit Plan(opforge_plan* handle) : handle_(handle) {}
  opforge_plan* handle_;
};

class Context {
 public:
  // `backend`: for every call, best effort; null: OPFORGE_BACKEND, if it is set.
  static Result<Context> create(const char* backend = nullptr) {
    opforge_context_options options;
    OPFORGE_INIT(options);
    options.backend = backend;
    opforge_context* handle = nullptr;
    return detail::check(opforge_context_create(&options, &handle)).map([&] {
      return Context(handle);
    });
  }
  Context(Context&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Context& operator=(Context&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Context() { opforge_context_destroy(handle_); }

  Result<void> open(const std::string& pack, const PackOptions& options = {}) {
    std::vector<const char*> keys;
    for (const std::string& key : options.trusted_keys) keys.push_back(key.c_str());
    opforge_pack_options c;
    OPFORGE_INIT(c);
    c.trusted_keys = keys.data();
    c.trusted_key_count = keys.size();
    c.only_named_keys = options.only_named_keys;
    c.allow_unsigned = options.allow_unsigned;
    return detail::check(opforge_pack_open(handle_, pack.c_str(), &c));
  }
  Result<void> set_backend(const std::string& name) {
    return detail::check(opforge_set_backend(handle_, name.c_str()));
  }

  Result<std::vector<std::string>> operators() const {
    std::size_t count = 0;
    if (auto counted = detail::check(opforge_operator_count(handle_, &count)); !counted)
      return counted.error();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      if (auto got = detail::check(opforge_operator_name(handle_, i, &name)); !got)
        return got.error();
      names.emplace_back(name);
    }
    return names;
  }
  // Good as long as this context is.
  Result<const opforge_operator_info*> describe(const std::string& op) const {
    const opforge_operator* found = nullptr;
    const opforge_operator_info* info = nullptr;
    if (auto got = detail::check(opforge_operator_find(handle_, op.c_str(), &found)); !got)
      return got.error();
    return detail::check(opforge_operator_describe(found, &info)).map([&] { return info; });
  }

  // Null tensors stand for optional ones that are not given.
  Result<void> call(const char* op, Tensors tensors, Attributes attributes = {},
                    const CallOptions& options = {}) const {
    const opforge_call_options c = options.c();
    return detail::check(opforge_call(handle_, op, tensors.data(), tensors.size(),
                                      detail::c_list(attributes), attributes.size(), &c));
  }
  Result<Plan> prepare(const char* op, Tensors tensors, Attributes attributes = {},
                       const CallOptions& options = {}) const {
    const opforge_call_options c = options.c();
    opforge_plan* plan = nullptr;
    return detail::check(opforge_plan_create(handle_, op, tensors.data(), tensors.size(),
                                             detail::c_list(attributes), attributes.size(), &c,
                                             &plan))
        .map([&] { return Plan(plan); });
  }
  Result<std::string> explain_json(const char* op, Tensors tensors, Attributes attributes = {},
                                   const CallOptions& options = {}) const {
    const opforge_call_options c = options.c();
    return detail::text([&](char** json) {
      return opforge_explain_json(handle_, op, tensors.data(), tensors.size(),
                                  detail::c_list(attributes), attributes.size(), &c, json);
    });
  }
  Result<std::string> choices_digest() const {
    char digest[65] = {};
    return detail::check(opforge_choices_digest(handle_, digest)).map([&] {
      return std::string(digest);
    });
  }
  opforge_context* handle() const { return handle_; }

 private:
  explicit Context(opforge_context* handle) : handle_(handle) {}
  opforge_context* handle_;
};

inline Result<std::string> metrics_text() { return detail::text(opforge_metrics_text); }
inline Result<std::string> fallbacks_json() { return detail::text(opforge_fallbacks_json); }
inline Result<std::string> events_json() { return detail::text(opforge_events_json); }
inline Result<std::string> devices_json() { return detail::text(opforge_devices_json); }
inline Result<std::string> take_trace_json() { return detail::text(opforge_trace_take_json); }

}  // namespace v1
}  // namespace opforge
