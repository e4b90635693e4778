// detect_cpu, declared in target/target.hpp.
#include <cpuid.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "target/target.hpp"

namespace opforge {
namespace {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);  // zeros when the leaf is absent
  return r;
}

constexpr bool all(unsigned value, unsigned bits) { return (value & bits) == bits; }

constexpr unsigned bits(std::initializer_list<int> positions) {
  unsigned value = 0;
  for (int position : positions) value |= 1u << position;
  return value;
}

unsigned enabled_state() {  // XCR0: which register files the operating system saves
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// The levels of the x86-64 psABI. From v3 on AES and PCLMULQDQ are asked for too: the code of these
// levels is compiled with them, since Highway's AVX2 and AVX-512 targets need them.
int detect_level() {
  const Registers one = cpuid(1), seven = cpuid(7), extended = cpuid(0x80000001);
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF
  if (!all(one.c, bits({0, 9, 13, 19, 20, 23})) || !all(extended.c, bits({0}))) return 1;
  // PCLMULQDQ, FMA, MOVBE, AES, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT
  if (!all(one.c, bits({1, 12, 22, 25, 27, 28, 29})) || !all(seven.b, bits({3, 5, 8})) ||
      !all(extended.c, bits({5}))) {
    return 2;
  }
  const unsigned state = enabled_state();
  if (!all(state, bits({1, 2}))) return 2;  // SSE, AVX
  // AVX512F, DQ, CD, BW, VL; state: opmask, upper halves, upper registers
  if (!all(seven.b, bits({16, 17, 28, 30, 31})) || !all(state, bits({5, 6, 7}))) return 3;
  return 4;
}

// A mask can only take away: claiming more than the CPU has would end in an illegal instruction.
int masked_level(int level) {
  const char* mask = std::getenv("OPFORGE_CPU_LEVEL");
  if (mask == nullptr || *mask == 0) return level;
  if (std::strlen(mask) == 1 && *mask >= '1' && *mask <= '4') return std::min(level, *mask - '0');
  log(LogLevel::kWarning, "target",
      "OPFORGE_CPU_LEVEL='" + std::string(mask) + "' is ignored; valid: 1, 2, 3, 4");
  return level;
}

std::string model_from_cpuid() {
  if (cpuid(0x80000000).a < 0x80000004) return {};
  char text[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    const Registers r = cpuid(0x80000002 + leaf);
    const unsigned words[4] = {r.a, r.b, r.c, r.d};
    std::memcpy(text + 16 * leaf, words, sizeof words);
  }
  return std::string(trim(text));
}

std::string model_from_proc() {
  const auto text = read_file("/proc/cpuinfo");
  if (!text) return {};
  const auto key = text->find("model name");
  if (key == std::string::npos) return {};
  const auto colon = text->find(':', key), end = text->find('\n', key);
  if (colon == std::string::npos || colon > end) return {};
  return std::string(trim(std::string_view(*text).substr(colon + 1, end - colon - 1)));
}

std::int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 1);  // more CPUs than a cpu_set_t holds
}

std::int64_t positive(long value) { return value > 0 ? value : 0; }

// The largest cache that one core sees. The C library's figure for level 3 is that of the whole
// chip on some processors, of which a process gets only the share of its cores.
std::int64_t last_level_cache() {
  std::int64_t largest = positive(sysconf(_SC_LEVEL2_CACHE_SIZE));
  for (int index = 0; index < 8; ++index) {
    const auto text =
        read_file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    if (!text) break;
    char* unit = nullptr;
    std::int64_t bytes = std::strtoll(text->c_str(), &unit, 10);
    if (*unit == 'K') bytes <<= 10;
    if (*unit == 'M') bytes <<= 20;
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace

DeviceInfo detect_cpu() {
  DeviceInfo info;
  info.model = model_from_cpuid();
  if (info.model.empty()) info.model = model_from_proc();
  info.arch = masked_level(detect_level());
  info.sm_count = usable_cores();
  info.l2_bytes = last_level_cache();
  info.memory_bytes = positive(sysconf(_SC_PHYS_PAGES)) * positive(sysconf(_SC_PAGESIZE));
  info.warp_size = 1;
  return info;
}

}  // namespace opforge
