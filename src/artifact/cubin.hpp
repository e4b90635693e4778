// Reads what opforge must know of compiled CUDA code, with a reader of its own: cubins (ELF) and
// PTX text. The bytes may come from anywhere: every offset is checked, and damage is an error
// (kCorrupt).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace opforge {

struct CubinParam {
  std::uint32_t offset_bytes = 0, size_bytes = 0;
};

struct CubinKernel {
  std::string symbol;
  std::vector<CubinParam> params;  // by position
  std::int64_t registers = 0;      // for each thread
  std::int64_t local_bytes = 0;    // stack frame of each thread
  std::int64_t shared_bytes = 0;   // static, without what the system keeps for itself
  std::int64_t code_bytes = 0;
  std::array<std::uint32_t, 3> required_block{};  // .reqntid; zeros: none
};

struct Cubin {
  int arch = 0;                      // 90 for sm_90 and sm_90a
  int abi = 0;                       // 7: toolkit 12, 8: toolkit 13
  std::vector<CubinKernel> kernels;  // by symbol
  const CubinKernel* find(std::string_view symbol) const;
};

Result<Cubin> read_cubin(std::string_view bytes);

// Entries of a PTX text, sorted, and the architecture of its .target (0 when there is none).
struct Ptx {
  int arch = 0;
  std::vector<std::string> entries;
};
Result<Ptx> read_ptx(std::string_view text);

// Fails when PTX has an atomic or a reduction that adds floating-point numbers: their order, and so
// their bits, depends on timing. The message gives the instruction. Compare-and-swap loops are
// refused too: they are how such sums are hidden.
Status check_no_float_atomics(std::string_view ptx);

}  // namespace opforge
