// The gradients of rms_norm (opforge_norm_backward.cuh).
#include "opforge_norm_backward.cuh"
