// "Not here" as values: Support for a candidate, Unavailable for a call.
#pragma once

#include <cassert>
#include <string>
#include <utility>

namespace opforge {

// Yes, or no with a reason. An empty reason is a bug in opforge.
class [[nodiscard]] Support {
 public:
  static Support yes() { return Support(std::string{}, true); }
  static Support no(std::string reason) {
    assert(!reason.empty() && "a refusal needs a reason");
    return Support(std::move(reason), false);
  }
  explicit operator bool() const { return yes_; }
  const std::string& reason() const { return reason_; }  // empty when yes

 private:
  Support(std::string reason, bool yes) : reason_(std::move(reason)), yes_(yes) {}
  std::string reason_;
  bool yes_;
};

// The outcome "this call cannot run here now"; the caller routes elsewhere.
struct Unavailable {
  std::string op;      // operator name
  std::string reason;
};

}  // namespace opforge
