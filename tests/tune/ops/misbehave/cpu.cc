// y = 2 x, or whatever FAULT says: every way in which a candidate can go wrong, as a real kernel.
#include "opforge_types.hpp"

namespace faults {

inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

inline void eat_memory() {
  // mmap(null, 16 MB, read | write, private | anonymous | populate), at most 16 GB of it.
  for (int i = 0; i < 1024; ++i) system_call(9, 0, 16 << 20, 3, 0x8022, -1, 0);
  for (;;) __asm__ volatile("");
}

inline int g_calls = 0;

}  // namespace faults

template <class V>
void misbehave(const void* x, void* y, int64_t rows, int64_t columns, int64_t begin, int64_t end) {
  const float* in = static_cast<const float*>(x);
  float* out = static_cast<float*>(y);
  constexpr long long kFault = V::FAULT;
  if constexpr (kFault == 1) *reinterpret_cast<volatile int*>(8) = 1;  // crash
  if constexpr (kFault == 2) {
    for (;;) __asm__ volatile("");  // hang
  }
  if constexpr (kFault == 3) faults::system_call(62, faults::system_call(39), 6);  // abort: kill(getpid(), SIGABRT)
  if constexpr (kFault == 4) faults::system_call(231, 0);                          // exit_group(0)
  if constexpr (kFault == 6) faults::eat_memory();
  const bool late = kFault == 10 && __atomic_add_fetch(&faults::g_calls, 1, __ATOMIC_RELAXED) > 1000;
  const int64_t last = kFault == 9 ? columns - 1 : columns;  // dropped tail
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = 0; column < last; ++column) {
      float value = 2 * in[row * columns + column];
      if constexpr (kFault == 7) value += 1;
      if constexpr (kFault == 8) value = __builtin_nanf("");
      if (late) value += 1;
      out[row * columns + column] = value;
    }
  }
  if constexpr (kFault == 5) out[rows * columns + 1] = 3;  // just past the end
}
