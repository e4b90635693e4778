// The gradients of rms_norm (opforge_norm_backward.hpp).
#include "opforge_norm_backward.hpp"
