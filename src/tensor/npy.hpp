// NumPy .npy files (format versions 1 to 3): one dense tensor each, little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tensor/dtype.hpp"

namespace opforge {

struct NpyArray {
  std::string descr;             // as in the file, e.g. "<f4"
  std::optional<DType> dtype;    // none: 2-byte or 1-byte data that has no dtype of ours by itself (bf16, fp8 stored raw)
  std::size_t item_bytes = 0;
  std::vector<std::int64_t> dims;
  std::string bytes;             // row-major (Fortran-ordered files are transposed when read)

  std::int64_t element_count() const;
  // The same bytes as another dtype of equal size ("u2" data that is bf16). kInvalidArgument names both sizes.
  Status reinterpret_as(DType as);
};

// kNotFound, kIo, or kCorrupt with what was expected (magic, header, size).
Result<NpyArray> read_npy(const std::filesystem::path& path);
Result<NpyArray> parse_npy(std::string_view file, std::string_view name);

// bf16 is written as "<u2", fp8 as "|u1": NumPy has no such types. Atomic.
Status write_npy(const std::filesystem::path& path, DType dtype, std::span<const std::int64_t> dims,
                 std::string_view bytes);

}  // namespace opforge
