/* opforge: launches operators from signed packs. Pure C99; tensors are DLPack's.
 *
 * A program opens packs in a context, then either calls operators by name (opforge_call: the kernel
 * is chosen once for each kind of call and kept) or prepares a plan and executes it (create ->
 * workspace size -> execute -> destroy). Nothing here compiles code.
 *
 * Rules that hold for every function:
 * - Nothing throws and nothing prints. A failure is a status; opforge_last_error() of the same
 *   thread says what the thing was, what was expected, what came, and what to do.
 * - OPFORGE_UNAVAILABLE is an outcome and not an error: this call cannot run here now,
 *   opforge_last_error() gives the reason, and the caller routes elsewhere.
 * - Handles are checked: null, a handle of another kind or one that was destroyed gives
 *   OPFORGE_INVALID_ARGUMENT.
 * - All functions are thread-safe, except that destroying a handle must not overlap another use.
 * - Strings given are UTF-8, ended by a zero byte, and read during the call only. `const char*`
 *   results belong to the handle that they came from; `char*` results are freed with
 *   opforge_text_free().
 * - Structs with `struct_size` are set to zero and then struct_size to their sizeof: OPFORGE_INIT
 *   does both. Zero means the default everywhere. Null may stand for a struct of options.
 */
#ifndef OPFORGE_OPFORGE_H_
#define OPFORGE_OPFORGE_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define OPFORGE_NOEXCEPT noexcept
#else
#define OPFORGE_NOEXCEPT
#endif

#if defined(__GNUC__)
#define OPFORGE_API __attribute__((visibility("default")))
#else
#define OPFORGE_API
#endif

/* Raised by every change that an older program could notice. */
#define OPFORGE_ABI_VERSION 1

typedef enum opforge_status {
  OPFORGE_OK = 0,
  OPFORGE_UNAVAILABLE = 1,          /* cannot run here now: route elsewhere */
  OPFORGE_INVALID_ARGUMENT = 2,     /* shape, dtype, name, handle, pointer */
  OPFORGE_INVALID_DECLARATION = 3,  /* an operator in a pack is declared wrongly */
  OPFORGE_NOT_FOUND = 4,            /* operator, backend, file, key */
  OPFORGE_CONTRACT_UNSATISFIED = 5, /* no kernel is strict enough */
  OPFORGE_COMPILATION_SEALED = 6,   /* a compile would be needed */
  OPFORGE_BACKEND_NOT_ELIGIBLE = 7, /* the backend that was named cannot serve the call */
  OPFORGE_CORRUPT = 8,
  OPFORGE_UNTRUSTED = 9,
  OPFORGE_INCOMPATIBLE = 10, /* architecture, driver, schema or toolkit version */
  OPFORGE_IO = 11,
  OPFORGE_TOOLCHAIN = 12,
  OPFORGE_DRIVER = 13,
  OPFORGE_OUT_OF_MEMORY = 14,
  OPFORGE_TIMEOUT = 15,
  OPFORGE_CANCELLED = 16,
  OPFORGE_INTERNAL = 17
} opforge_status;

typedef enum opforge_contract {
  OPFORGE_CONTRACT_DEFAULT = 0, /* the operator's own */
  OPFORGE_FAST = 1,
  OPFORGE_HIGH_PRECISION = 2,
  OPFORGE_DETERMINISTIC = 3
} opforge_contract;

typedef enum opforge_proof {
  OPFORGE_PROOF_DEFAULT = 0,  /* unproved code serves FAST only */
  OPFORGE_PROOF_REQUIRED = 1, /* unproved code serves nothing */
  OPFORGE_PROOF_OFF = 2
} opforge_proof;

typedef enum opforge_access {
  OPFORGE_READ = 0,
  OPFORGE_WRITE = 1,
  OPFORGE_UPDATE = 2
} opforge_access;

typedef enum opforge_attribute_type {
  OPFORGE_ATTRIBUTE_INT = 0,
  OPFORGE_ATTRIBUTE_FLOAT = 1,
  OPFORGE_ATTRIBUTE_BOOL = 2, /* given as an integer, 0 or 1 */
  OPFORGE_ATTRIBUTE_TEXT = 3
} opforge_attribute_type;

typedef struct opforge_context opforge_context;
typedef struct opforge_plan opforge_plan;
typedef struct opforge_operator opforge_operator; /* owned by its context */

#define OPFORGE_INIT(options)                                        \
  do {                                                               \
    unsigned char* opforge_bytes_ = (unsigned char*)&(options);      \
    size_t opforge_i_;                                               \
    for (opforge_i_ = 0; opforge_i_ < sizeof(options); ++opforge_i_) \
      opforge_bytes_[opforge_i_] = 0;                                \
    (options).struct_size = sizeof(options);                         \
  } while (0)

/* ---- The library ---- */

/* OPFORGE_ABI_VERSION of the library. */
OPFORGE_API uint32_t opforge_abi_version(void) OPFORGE_NOEXCEPT;
OPFORGE_API const char* opforge_version(void) OPFORGE_NOEXCEPT; /* "0.1.0" */
/* "contract_unsatisfied"; never null. */
OPFORGE_API const char* opforge_status_name(opforge_status status) OPFORGE_NOEXCEPT;
/* Why the last function of this thread that did not return OPFORGE_OK did not; "" at first. Good
 * until the next failure. */
OPFORGE_API const char* opforge_last_error(void) OPFORGE_NOEXCEPT;
OPFORGE_API void opforge_text_free(char* text) OPFORGE_NOEXCEPT;

/* From here on nothing compiles in this process; cannot be undone. */
OPFORGE_API opforge_status opforge_seal(void) OPFORGE_NOEXCEPT;
OPFORGE_API int opforge_is_sealed(void) OPFORGE_NOEXCEPT;
/* Development mode: the reference also serves tensors on devices, by copying them. Ignored once
 * sealed. */
OPFORGE_API opforge_status opforge_develop(void) OPFORGE_NOEXCEPT;
/* What would have needed a compile: a JSON array of texts. */
OPFORGE_API opforge_status opforge_sealed_misses_json(char** json) OPFORGE_NOEXCEPT;
/* Host threads that CPU kernels may use; below 1: OPFORGE_THREADS as it was at the start, else all
 * cores. */
OPFORGE_API opforge_status opforge_set_threads(int threads) OPFORGE_NOEXCEPT;
/* Devices of this machine: [{"device": "cpu:0", "model": ..., "arch": 3, "driver": 0,
 * "memory_bytes": ...}, ...]. */
OPFORGE_API opforge_status opforge_devices_json(char** json) OPFORGE_NOEXCEPT;

/* Called with messages of at least this level: 0 debug, 1 info, 2 warning, 3 error. From any
 * thread; a null function ends it. */
typedef void (*opforge_log_function)(void* user, int level, const char* subsystem,
                                     const char* message);
OPFORGE_API opforge_status opforge_set_log(opforge_log_function function, void* user,
                                           int least_level) OPFORGE_NOEXCEPT;

/* ---- Contexts and packs ---- */

typedef struct opforge_context_options {
  size_t struct_size;
  const char* backend; /* as opforge_set_backend; null: OPFORGE_BACKEND, if it is set */
} opforge_context_options;

OPFORGE_API opforge_status opforge_context_create(const opforge_context_options* options,
                                                  opforge_context** context) OPFORGE_NOEXCEPT;
/* Null is fine. Plans stay usable; operators of the context do not. */
OPFORGE_API opforge_status opforge_context_destroy(opforge_context* context) OPFORGE_NOEXCEPT;

typedef struct opforge_pack_options {
  size_t struct_size;
  /* Trusted beside the process's own: public keys as 64 hex digits, or paths of files that hold
   * one. */
  const char* const* trusted_keys;
  size_t trusted_key_count;
  int only_named_keys; /* not 0: neither the user's keys nor OPFORGE_TRUST, only those above */
  int allow_unsigned;  /* not 0: unsigned packs too. Their code runs in this process */
} opforge_pack_options;

/* OPFORGE_NOT_FOUND, OPFORGE_CORRUPT, OPFORGE_UNTRUSTED, OPFORGE_INCOMPATIBLE. Packs opened first
 * win ties. */
OPFORGE_API opforge_status opforge_pack_open(opforge_context* context, const char* path,
                                             const opforge_pack_options* options) OPFORGE_NOEXCEPT;

/* A backend for every call of this context, best effort; null or "" returns to the operators' own
 * order. May be called at any time. OPFORGE_NOT_FOUND lists the valid names. */
OPFORGE_API opforge_status opforge_set_backend(opforge_context* context,
                                               const char* name) OPFORGE_NOEXCEPT;

/* One digest (64 hex digits and a zero byte) over every choice made so far: processes that made the
 * same calls from the same packs have the same, whatever the order. */
OPFORGE_API opforge_status opforge_choices_digest(opforge_context* context,
                                                  char digest[65]) OPFORGE_NOEXCEPT;

/* ---- What is in the packs ---- */

OPFORGE_API opforge_status opforge_operator_count(opforge_context* context,
                                                  size_t* count) OPFORGE_NOEXCEPT;
/* By name, sorted. The name is good until another pack is opened or the context destroyed. */
OPFORGE_API opforge_status opforge_operator_name(opforge_context* context, size_t index,
                                                 const char** name) OPFORGE_NOEXCEPT;
/* Reads the operator's section. Good until the context is destroyed. */
OPFORGE_API opforge_status opforge_operator_find(opforge_context* context, const char* name,
                                                 const opforge_operator** op) OPFORGE_NOEXCEPT;

typedef struct opforge_tensor_info {
  const char* name;
  int32_t dim_count;       /* declared dims */
  const char* const* dims; /* "M", "2*N"; the first may be "...M": any number of leading dims */
  const char* dtype; /* a dtype name, or a dtype variable that the combinations below assign */
  opforge_access access;
  int32_t optional; /* not 0: may be absent */
} opforge_tensor_info;

typedef struct opforge_attribute_info {
  const char* name;
  opforge_attribute_type type;
  const char* default_text; /* null: required */
} opforge_attribute_info;

typedef struct opforge_operator_info {
  size_t tensor_count;
  const opforge_tensor_info* tensors; /* in call order */
  size_t attribute_count;
  const opforge_attribute_info* attributes;
  size_t dtype_count;
  const char* const* dtypes; /* combinations: "T=bf16,W=f32", the most common first */
  const char* formula;
  opforge_contract default_contract;
  size_t artifact_count; /* pieces of code for it, for all targets */
} opforge_operator_info;

OPFORGE_API opforge_status opforge_operator_describe(
    const opforge_operator* op, const opforge_operator_info** info) OPFORGE_NOEXCEPT;

/* ---- Calls ---- */

typedef struct opforge_attribute {
  const char* name;
  opforge_attribute_type type;
  int64_t integer;  /* INT, BOOL */
  double number;    /* FLOAT */
  const char* text; /* TEXT */
} opforge_attribute;

/* The caller's own precondition: not 0 if the call may run. Otherwise `reason` is set to a text
 * that stays good until the function is called again on this thread. */
typedef int (*opforge_precondition)(void* user, const DLTensor* const* tensors, size_t tensor_count,
                                    const char** reason);

typedef struct opforge_call_options {
  size_t struct_size;
  opforge_contract contract;
  const char* backend; /* strict: a backend that cannot serve the call is an error */
  opforge_proof proof;
  int allow_ptx;        /* not 0: the driver may compile PTX, unless sealed */
  void* stream;         /* CUstream of the tensors' device; null: the default stream */
  int lockstep;         /* not 0: all ranks make this call together */
  int rank, world_size; /* world_size 0 is 1 */
  opforge_precondition precondition;
  void* precondition_user;
} opforge_call_options;

/* `tensors` in the order of the declaration; null stands for an optional tensor that is not given.
 * Null `strides` are row-major. All on one device. Outputs are written in place. Workspace comes
 * from a pool for each stream. On a device the work is queued on the stream; on the host it is done
 * on return. Calls with outputs of size zero launch nothing. */
OPFORGE_API opforge_status opforge_call(opforge_context* context, const char* op,
                                        const DLTensor* const* tensors, size_t tensor_count,
                                        const opforge_attribute* attributes, size_t attribute_count,
                                        const opforge_call_options* options) OPFORGE_NOEXCEPT;

/* An output that a caller has to make. */
#define OPFORGE_MAX_RANK 8
typedef struct opforge_output_info {
  int32_t needed; /* 0: this tensor was given, is optional, or is not an output */
  int32_t ndim;
  int64_t shape[OPFORGE_MAX_RANK];
  DLDataType dtype;
  DLDevice device; /* that of the tensors given */
} opforge_output_info;

/* What the outputs that are not given must be, from the tensors that are: null stands for an output
 * to make, and for an optional tensor that is absent. `outputs` has tensor_count entries. Row-major
 * tensors of these shapes are right for opforge_call. OPFORGE_INVALID_ARGUMENT names a dim or a
 * dtype that follows from no given tensor. */
OPFORGE_API opforge_status opforge_infer_outputs(opforge_context* context, const char* op,
                                                 const DLTensor* const* tensors,
                                                 size_t tensor_count,
                                                 const opforge_attribute* attributes,
                                                 size_t attribute_count,
                                                 opforge_output_info* outputs) OPFORGE_NOEXCEPT;

/* Why each candidate would or would not serve the call: {"op":, "asked":, "outcome":, "grade":,
 * "candidates": [...]}. */
OPFORGE_API opforge_status opforge_explain_json(opforge_context* context, const char* op,
                                                const DLTensor* const* tensors, size_t tensor_count,
                                                const opforge_attribute* attributes,
                                                size_t attribute_count,
                                                const opforge_call_options* options,
                                                char** json) OPFORGE_NOEXCEPT;

/* ---- Plans ---- */

OPFORGE_API opforge_status opforge_plan_create(opforge_context* context, const char* op,
                                               const DLTensor* const* tensors, size_t tensor_count,
                                               const opforge_attribute* attributes,
                                               size_t attribute_count,
                                               const opforge_call_options* options,
                                               opforge_plan** plan) OPFORGE_NOEXCEPT;
OPFORGE_API opforge_status opforge_plan_workspace_bytes(const opforge_plan* plan,
                                                        size_t* bytes) OPFORGE_NOEXCEPT;
OPFORGE_API opforge_status opforge_plan_workspace_align(const opforge_plan* plan,
                                                        size_t* align) OPFORGE_NOEXCEPT;
/* `data[i]` is the address of the first element of tensor i (DLPack's data + byte_offset), null
 * where it is absent or empty; shapes, strides and dtypes are as prepared. `workspace` is memory of
 * the same device and may be null when 0 bytes are needed. May be called while `stream` is being
 * captured. */
OPFORGE_API opforge_status opforge_plan_execute(const opforge_plan* plan, void* const* data,
                                                size_t data_count, void* workspace,
                                                void* stream) OPFORGE_NOEXCEPT;

typedef struct opforge_plan_info {
  const char* kernel;  /* "rms_norm.cuda.row" */
  const char* variant; /* with dtypes, tunables and target */
  const char* backend;
  const char* target;
  const char* device; /* "cuda:0" */
  opforge_contract tier;
  const char* grade; /* "exact", "nearest", "default", "reference" */
  const char* why;
} opforge_plan_info;
OPFORGE_API opforge_status opforge_plan_describe(const opforge_plan* plan,
                                                 const opforge_plan_info** info) OPFORGE_NOEXCEPT;
/* Null is fine. Code that was captured into a graph stays loaded. */
OPFORGE_API opforge_status opforge_plan_destroy(opforge_plan* plan) OPFORGE_NOEXCEPT;

/* ---- What happened ---- */

/* [{"op":, "asked":, "used":, "count":}, ...]: calls that a stricter kernel served because the
 * asked tier is not offered. */
OPFORGE_API opforge_status opforge_fallbacks_json(char** json) OPFORGE_NOEXCEPT;
/* [{"op":, "name":, "count":}, ...]: "unavailable", "unproved", "reference", "forced_unserved". */
OPFORGE_API opforge_status opforge_events_json(char** json) OPFORGE_NOEXCEPT;
OPFORGE_API opforge_status opforge_metrics_text(char** text) OPFORGE_NOEXCEPT; /* OpenMetrics */
OPFORGE_API opforge_status opforge_metrics_reset(void) OPFORGE_NOEXCEPT;
typedef void (*opforge_fallback_function)(void* user, const char* op, opforge_contract asked,
                                          opforge_contract used);
OPFORGE_API opforge_status opforge_set_fallback_hook(opforge_fallback_function function,
                                                     void* user) OPFORGE_NOEXCEPT;

/* Records of calls, failed ones too. At most `capacity` are kept (0: 65,536); the oldest go
 * first. */
OPFORGE_API opforge_status opforge_trace_start(size_t capacity) OPFORGE_NOEXCEPT;
OPFORGE_API opforge_status opforge_trace_stop(void) OPFORGE_NOEXCEPT;
/* One JSON object a line; what is taken is cleared. */
OPFORGE_API opforge_status opforge_trace_take_json(char** json_lines) OPFORGE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* OPFORGE_OPFORGE_H_ */
