/* Runs norm.rms_norm from a pack, twice: by name, and as a plan. Plain C99; nothing but libopforge
 * is linked.
 *
 *   rms_norm PACK [KEY]      KEY: the public key that signed the pack, if the process does not
 * trust it already
 */
#include <math.h>
#include <opforge/opforge.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 4, kWidth = 1000 };

static float x[kRows * kWidth], w[kWidth], y[kRows * kWidth];

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, opforge_last_error());
  return 1;
}

static DLTensor tensor(float* data, int64_t* shape, int32_t rank) {
  DLTensor t;
  t.data = data;
  t.device.device_type = kDLCPU;
  t.device.device_id = 0;
  t.ndim = rank;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  t.strides = NULL; /* row-major */
  t.byte_offset = 0;
  return t;
}

/* The largest difference from y = x / sqrt(mean(x^2) + eps) * w in double. */
static double worst_error(double eps) {
  double worst = 0;
  int row, i;
  for (row = 0; row < kRows; ++row) {
    double sum = 0;
    for (i = 0; i < kWidth; ++i) sum += (double)x[row * kWidth + i] * x[row * kWidth + i];
    for (i = 0; i < kWidth; ++i) {
      const double expected = x[row * kWidth + i] / sqrt(sum / kWidth + eps) * w[i];
      const double error = fabs(expected - y[row * kWidth + i]);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

int main(int argc, char** argv) {
  opforge_context* context = NULL;
  opforge_plan* plan = NULL;
  opforge_pack_options trust;
  opforge_call_options options;
  opforge_attribute eps;
  const opforge_plan_info* info = NULL;
  int64_t matrix[2] = {kRows, kWidth}, vector[1] = {kWidth};
  DLTensor tx = tensor(x, matrix, 2), tw = tensor(w, vector, 1), ty = tensor(y, matrix, 2);
  const DLTensor* tensors[3];
  void* data[3];
  void* workspace = NULL;
  size_t workspace_bytes = 0;
  int i;

  if (argc < 2) {
    fprintf(stderr, "usage: %s PACK [KEY]\n", argv[0]);
    return 2;
  }
  for (i = 0; i < kRows * kWidth; ++i) x[i] = (float)(i % 17) - 8.0f;
  for (i = 0; i < kWidth; ++i) w[i] = 1.0f + (float)(i % 3);
  tensors[0] = &tx, tensors[1] = &tw, tensors[2] = &ty;

  if (opforge_abi_version() != OPFORGE_ABI_VERSION) {
    fprintf(stderr, "this program was built for ABI %d, the library has %u\n", OPFORGE_ABI_VERSION,
            (unsigned)opforge_abi_version());
    return 1;
  }
  opforge_seal(); /* nothing compiles in this process from here on */
  if (opforge_context_create(NULL, &context) != OPFORGE_OK) return failed("context");
  OPFORGE_INIT(trust);
  trust.trusted_keys = (const char* const*)(argv + 2);
  trust.trusted_key_count = argc > 2 ? 1 : 0;
  if (opforge_pack_open(context, argv[1], &trust) != OPFORGE_OK) return failed("pack");

  eps.name = "eps";
  eps.type = OPFORGE_ATTRIBUTE_FLOAT;
  eps.integer = 0;
  eps.number = 1e-6;
  eps.text = NULL;
  OPFORGE_INIT(options);
  options.contract = OPFORGE_FAST;

  /* By name: chosen once, then found again at each call. */
  if (opforge_call(context, "norm.rms_norm", tensors, 3, &eps, 1, &options) != OPFORGE_OK)
    return failed("call");
  printf("call: worst error %.1e\n", worst_error(1e-6));

  /* As a plan. */
  for (i = 0; i < kRows * kWidth; ++i) y[i] = 0;
  if (opforge_plan_create(context, "norm.rms_norm", tensors, 3, &eps, 1, &options, &plan) !=
      OPFORGE_OK) {
    return failed("plan");
  }
  opforge_plan_workspace_bytes(plan, &workspace_bytes);
  if (workspace_bytes != 0) workspace = malloc(workspace_bytes);
  data[0] = x, data[1] = w, data[2] = y;
  if (opforge_plan_execute(plan, data, 3, workspace, NULL) != OPFORGE_OK) return failed("execute");
  opforge_plan_describe(plan, &info);
  printf("plan: worst error %.1e, %s (%s)\n", worst_error(1e-6), info->variant, info->grade);

  /* What went wrong is a status and a message. */
  vector[0] = kWidth - 1;
  if (opforge_call(context, "norm.rms_norm", tensors, 3, &eps, 1, &options) !=
      OPFORGE_INVALID_ARGUMENT) {
    fprintf(stderr, "a wrong shape was not noticed\n");
    return 1;
  }
  printf("refused: %s\n", opforge_last_error());
  i = worst_error(1e-6) < 1e-4 ? 0 : 1;

  free(workspace);
  opforge_plan_destroy(plan);
  opforge_context_destroy(context);
  return i;
}
