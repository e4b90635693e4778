// A fuzz target: LLVMFuzzerTestOneInput, and good inputs to start from. With clang and OPFORGE_FUZZ
// each becomes a libFuzzer program; everywhere each becomes a test that replays the seeds with
// random mutations (tests/fuzz/replay.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

std::vector<std::string> fuzz_seeds();
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// A property that any input must keep. Ends the process, so that both drivers notice.
#define FUZZ_CHECK(condition)           \
  do {                                  \
    if (!(condition)) __builtin_trap(); \
  } while (0)
