#include "operator/reference.hpp"

namespace opforge {

void copy_reference(ReferenceCall& call) { call.tensors.at("y").values = call.tensors.at("x").values; }

}  // namespace opforge
