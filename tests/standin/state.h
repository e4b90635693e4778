/* The stand-in driver's state, shared by its files. Everything below is protected by
 * standin_lock(). */
#ifndef OPFORGE_TESTS_STANDIN_STATE_H
#define OPFORGE_TESTS_STANDIN_STATE_H

#include "image.h"
#include "standin.h"

#define EXPORT __attribute__((visibility("default")))

enum { kMaxDevices = 16, kMaxAttributes = 256 };

typedef struct Context {
  int device;
} Context;

typedef struct Stream {
  struct Stream* next;
  Context* context;
  uint64_t id;
  int non_blocking, capturing, captured_launches;
  int invalidated; /* a call that a capture does not stand ends it */
} Stream;

typedef struct Device {
  Context primary;
  int attributes[kMaxAttributes];
  size_t memory, used;
} Device;

typedef struct State {
  int devices, driver_version, sticky, initialised, fast;
  Device device[kMaxDevices];
  Stream* streams;
  uint64_t next_stream_id;
  int images, jit_count;
} State;

extern State standin;
extern __thread Context* standin_stack[16];
extern __thread int standin_depth;

void standin_lock(void);
void standin_unlock(void);
/* Count a call of `entry`; 0, or the error that was asked for it. */
int standin_enter(const char* entry);
void record_launch(const StandinLaunch* launch);
void record_memset(const StandinMemset* record);
int record_map(const StandinMap* record); /* its number, from 1 */
void forget_records(void);

static inline Context* current_context(void) {
  return standin_depth > 0 ? standin_stack[standin_depth - 1] : 0;
}

/* Begin an entry point: count it, fail on demand, hold the lock. End it with LEAVE(result). */
#define ENTER(name)                  \
  standin_lock();                    \
  int result_ = standin_enter(name); \
  if (result_ != 0) {                \
    standin_unlock();                \
    return result_;                  \
  }
#define LEAVE(result)  \
  do {                 \
    int r_ = (result); \
    standin_unlock();  \
    return r_;         \
  } while (0)
/* The same for those that need a context and meet sticky errors. */
#define ENTER_IN_CONTEXT(name)                    \
  ENTER(name)                                     \
  Context* context = current_context();           \
  (void)context;                                  \
  if (standin.sticky != 0) LEAVE(standin.sticky); \
  if (context == 0) LEAVE(201);

#endif
