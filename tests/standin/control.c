/* Control functions and records of the stand-in driver. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

State standin;
__thread Context* standin_stack[16];
__thread int standin_depth;

typedef struct Entry {
  char name[64];
  int calls, fail_in, every, result;
} Entry;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Entry entries[128];
static int entry_count;
static StandinLaunch* launches;
static StandinMemset* memsets;
static StandinMap* maps;
static int launch_count, memset_count, map_count;

void standin_lock(void) { pthread_mutex_lock(&mutex); }
void standin_unlock(void) { pthread_mutex_unlock(&mutex); }

static Entry* find_entry(const char* name) {
  for (int i = 0; i < entry_count; ++i) {
    if (strcmp(entries[i].name, name) == 0) return &entries[i];
  }
  if (entry_count == (int)(sizeof entries / sizeof *entries)) abort();
  Entry* entry = &entries[entry_count++];
  memset(entry, 0, sizeof *entry);
  strncpy(entry->name, name, sizeof entry->name - 1);
  return entry;
}

int standin_enter(const char* name) {
  Entry* entry = find_entry(name);
  ++entry->calls;
  if (entry->every) return entry->result;
  if (entry->fail_in > 0 && --entry->fail_in == 0) return entry->result;
  return 0;
}

#define RECORD(list, count, record)                           \
  do {                                                        \
    list = realloc(list, (size_t)(count + 1) * sizeof *list); \
    list[count++] = *record;                                  \
  } while (0)

void record_launch(const StandinLaunch* launch) { RECORD(launches, launch_count, launch); }
void record_memset(const StandinMemset* record) { RECORD(memsets, memset_count, record); }
int record_map(const StandinMap* record) {
  RECORD(maps, map_count, record);
  return map_count;
}

static int from_environment(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL && *text != '\0' ? atoi(text) : otherwise;
}

/* The figures of an H200; the capability alone can be set from the environment. */
static void start_device(Device* device, int ordinal) {
  const int arch = from_environment("OPFORGE_STANDIN_ARCH", 90);
  static const struct {
    int attribute, value;
  } defaults[] = {{1, 1024},  {2, 1024},     {3, 1024},      {4, 64},  {5, 2147483647},
                  {6, 65535}, {7, 65535},    {8, 49152},     {10, 32}, {13, 1980000},
                  {16, 132},  {36, 3201000}, {38, 62914560}, {95, 1},  {97, 232448},
                  {115, 1},   {120, 1}};
  memset(device->attributes, 0, sizeof device->attributes);
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; ++i) {
    device->attributes[defaults[i].attribute] = defaults[i].value;
  }
  device->attributes[75] = arch / 10;
  device->attributes[76] = arch % 10;
  device->primary.device = ordinal;
  device->memory = (size_t)1 << 37;
}

EXPORT void standin_reset(void);
__attribute__((constructor)) static void start(void) { standin_reset(); }

EXPORT void standin_reset(void) {
  standin_lock();
  standin.devices = from_environment("OPFORGE_STANDIN_DEVICES", 1);
  if (standin.devices > kMaxDevices) standin.devices = kMaxDevices;
  standin.driver_version = from_environment("OPFORGE_STANDIN_DRIVER", 13000);
  standin.fast = from_environment("OPFORGE_STANDIN_FAST", 0);
  standin.sticky = 0;
  standin.jit_count = 0;
  if (standin.next_stream_id == 0) standin.next_stream_id = 10;
  for (int i = 0; i < kMaxDevices; ++i) start_device(&standin.device[i], i);
  entry_count = launch_count = memset_count = map_count = 0;
  standin_unlock();
}

EXPORT void standin_set_devices(int count) {
  standin_lock();
  standin.devices = count < kMaxDevices ? count : kMaxDevices;
  standin_unlock();
}

EXPORT void standin_set_driver_version(int version) {
  standin_lock();
  standin.driver_version = version;
  standin_unlock();
}

EXPORT void standin_set_attribute(int device, int attribute, int value) {
  standin_lock();
  standin.device[device].attributes[attribute] = value;
  standin_unlock();
}

EXPORT void standin_set_memory(int device, size_t bytes) {
  standin_lock();
  standin.device[device].memory = bytes;
  standin_unlock();
}

EXPORT void standin_fail(const char* name, int nth, int result) {
  standin_lock();
  Entry* entry = find_entry(name);
  entry->fail_in = nth;
  entry->every = nth == 0 && result != 0;
  entry->result = result;
  standin_unlock();
}

EXPORT void standin_set_sticky(int result) {
  standin_lock();
  standin.sticky = result;
  standin_unlock();
}

#define GETTER(type, name, expression) \
  EXPORT type name {                   \
    standin_lock();                    \
    const type value = (expression);   \
    standin_unlock();                  \
    return value;                      \
  }
GETTER(int, standin_calls(const char* name), find_entry(name)->calls)
GETTER(int, standin_images(void), standin.images)
GETTER(int, standin_jit_count(void), standin.jit_count)
GETTER(size_t, standin_memory_used(int device), standin.device[device].used)
GETTER(int, standin_current_device(void),
       current_context() != NULL ? current_context()->device : -1)
GETTER(int, standin_launch_count(void), launch_count)
GETTER(int, standin_memset_count(void), memset_count)
GETTER(int, standin_map_count(void), map_count)

#define RECORD_GETTER(type, name, list, count)     \
  EXPORT int name(int index, type* record) {       \
    standin_lock();                                \
    const int there = index >= 0 && index < count; \
    if (there) *record = list[index];              \
    standin_unlock();                              \
    return there;                                  \
  }
RECORD_GETTER(StandinLaunch, standin_get_launch, launches, launch_count)
RECORD_GETTER(StandinMemset, standin_get_memset, memsets, memset_count)
RECORD_GETTER(StandinMap, standin_get_map, maps, map_count)
