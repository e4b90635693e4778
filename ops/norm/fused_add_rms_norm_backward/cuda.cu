// The gradients of fused_add_rms_norm (opforge_norm_backward.cuh).
#include "opforge_norm_backward.cuh"
