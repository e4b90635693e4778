// The gradients of layer_norm (opforge_norm_backward.hpp).
#include "opforge_norm_backward.hpp"
