// What a shared object (ELF64, little endian) needs and offers: read from its bytes, nothing is
// loaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace opforge {

struct ElfFacts {
  std::vector<std::string> needed;  // libraries (DT_NEEDED)
  std::vector<std::string>
      undefined;  // symbols that the loader would look up elsewhere; weak ones left out
  std::vector<std::string> exported;  // symbols that it offers
  bool constructors = false;          // has code that runs when it is loaded
  std::int64_t text_bytes = 0;        // executable segments
};
// kCorrupt when the bytes are no such file or point outside themselves.
Result<ElfFacts> read_elf(std::string_view bytes);

}  // namespace opforge
