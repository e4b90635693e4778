#include "tensor/npy.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/files.hpp"
#include "base/text.hpp"

namespace opforge {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

struct Descr {
  std::optional<DType> dtype;
  std::size_t item_bytes;
};

std::optional<Descr> known_descr(std::string_view descr) {
  if (descr.size() < 3) return std::nullopt;
  const char order = descr[0];
  const std::string_view kind = descr.substr(1);
  if (order == '>') return std::nullopt;
  const struct {
    std::string_view kind;
    std::optional<DType> dtype;
    std::size_t item_bytes;
  } rows[] = {{"f8", DType::kF64, 8}, {"f4", DType::kF32, 4}, {"f2", DType::kF16, 2}, {"i1", DType::kI8, 1},
              {"u1", DType::kU8, 1},  {"i4", DType::kI32, 4}, {"i8", DType::kI64, 8}, {"u4", DType::kU32, 4},
              {"u8", DType::kU64, 8}, {"b1", DType::kBool, 1}, {"u2", std::nullopt, 2}, {"i2", std::nullopt, 2},
              {"V2", std::nullopt, 2}, {"V1", std::nullopt, 1}};
  for (const auto& row : rows) {
    if (row.kind == kind) return Descr{row.dtype, row.item_bytes};
  }
  return std::nullopt;
}

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "<f8";
    case DType::kF32: return "<f4";
    case DType::kF16: return "<f2";
    case DType::kBF16: return "<u2";
    case DType::kI8: return "|i1";
    case DType::kU8: return "|u1";
    case DType::kI32: return "<i4";
    case DType::kI64: return "<i8";
    case DType::kU32: return "<u4";
    case DType::kU64: return "<u8";
    case DType::kBool: return "|b1";
    case DType::kF8E4M3:
    case DType::kF8E5M2: return "|u1";
  }
  return "|u1";
}

// The text behind `'key':` in the header's dictionary, up to the end of its value.
std::optional<std::string_view> header_value(std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}'", key);
  auto at = header.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find(':', at + quoted.size());
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = trim(header.substr(at + 1));
  if (rest.empty()) return std::nullopt;
  if (rest[0] == '(') return rest.substr(0, rest.find(')') + 1);
  if (rest[0] == '\'') return rest.substr(1, rest.find('\'', 1) - 1);
  return trim(rest.substr(0, rest.find_first_of(",}")));
}

Result<std::vector<std::int64_t>> parse_dims(std::string_view text, std::string_view name) {
  std::vector<std::int64_t> dims;
  if (text.size() < 2) return fail(Code::kCorrupt, fmt::format("{}: the shape in its header is malformed", name));
  for (const std::string& part : split(text.substr(1, text.size() - 2), ',')) {
    const std::string_view digits = trim(part);
    if (digits.empty()) continue;
    std::int64_t value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9' || value > kMostElements) {
        return fail(Code::kCorrupt, fmt::format("{}: the shape {} in its header is malformed", name, text));
      }
      value = value * 10 + (c - '0');
    }
    dims.push_back(value);
  }
  return dims;
}

std::string to_row_major(const std::string& bytes, const std::vector<std::int64_t>& dims, std::size_t item_bytes) {
  std::string out(bytes.size(), '\0');
  const std::size_t rank = dims.size();
  std::vector<std::int64_t> index(rank, 0);
  std::vector<std::int64_t> strides(rank, 1);
  for (std::size_t i = 1; i < rank; ++i) strides[i] = strides[i - 1] * dims[i - 1];
  for (std::size_t at = 0; at < bytes.size(); at += item_bytes) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < rank; ++i) from += index[i] * strides[i];
    std::memcpy(out.data() + at, bytes.data() + static_cast<std::size_t>(from) * item_bytes, item_bytes);
    for (std::size_t i = rank; i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return out;
}

}  // namespace

std::int64_t NpyArray::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

Status NpyArray::reinterpret_as(DType as) {
  if (itemsize(as) != item_bytes) {
    return fail(Code::kInvalidArgument, fmt::format("data of {} bytes an element ({}) cannot be read as {}, which has {}",
                                                    item_bytes, descr, dtype_name(as), itemsize(as)));
  }
  dtype = as;
  return {};
}

Result<NpyArray> parse_npy(std::string_view file, std::string_view name) {
  const auto corrupt = [&](std::string_view what) {
    return fail(Code::kCorrupt, fmt::format("{}: not a NumPy .npy file: {}", name, what), "tensor/npy");
  };
  if (file.size() < 10 || file.substr(0, 6) != kMagic) return corrupt("the first bytes are not \\x93NUMPY");
  const int version = static_cast<unsigned char>(file[6]);
  if (version < 1 || version > 3) return corrupt(fmt::format("format version {} (1 to 3 are known)", version));
  std::size_t header_bytes = 0, header_at = 0;
  if (version == 1) {
    header_bytes = static_cast<unsigned char>(file[8]) | static_cast<std::size_t>(static_cast<unsigned char>(file[9])) << 8;
    header_at = 10;
  } else {
    if (file.size() < 12) return corrupt("it ends within its header");
    for (int i = 3; i >= 0; --i) header_bytes = header_bytes << 8 | static_cast<unsigned char>(file[8 + static_cast<std::size_t>(i)]);
    header_at = 12;
  }
  if (file.size() - header_at < header_bytes) return corrupt("it ends within its header");
  const std::string_view header = file.substr(header_at, header_bytes);
  const auto descr = header_value(header, "descr");
  const auto order = header_value(header, "fortran_order");
  const auto shape = header_value(header, "shape");
  if (!descr || !order || !shape) return corrupt("its header lacks descr, fortran_order or shape");
  const auto known = known_descr(*descr);
  if (!known) {
    return fail(Code::kUnavailable, fmt::format("{}: elements of NumPy type '{}' are not supported; save it as float32, float16, "
                                                "float64, an integer of 1, 4 or 8 bytes, or 2-byte data with --dtype NAME=bf16",
                                                name, *descr));
  }
  NpyArray array;
  array.descr = std::string(*descr);
  array.dtype = known->dtype;
  array.item_bytes = known->item_bytes;
  OPFORGE_ASSIGN(array.dims, parse_dims(*shape, name));
  std::int64_t count = 1;
  for (const std::int64_t dim : array.dims) {
    if (dim != 0 && count > kMostElements / dim) return corrupt("its shape is too large");
    count *= dim;
  }
  const std::string_view data = file.substr(header_at + header_bytes);
  const std::size_t wanted = static_cast<std::size_t>(count) * array.item_bytes;
  if (data.size() < wanted) return corrupt(fmt::format("its shape needs {} bytes of data, {} are there", wanted, data.size()));
  array.bytes = std::string(data.substr(0, wanted));
  if (*order == "True" && array.dims.size() > 1) array.bytes = to_row_major(array.bytes, array.dims, array.item_bytes);
  return array;
}

Result<NpyArray> read_npy(const std::filesystem::path& path) {
  OPFORGE_ASSIGN(std::string file, read_file(path));
  return parse_npy(file, path.string());
}

Status write_npy(const std::filesystem::path& path, DType dtype, std::span<const std::int64_t> dims,
                 std::string_view bytes) {
  std::string shape = "(";
  for (const std::int64_t dim : dims) shape += fmt::format("{},{}", dim, dims.size() == 1 ? "" : " ");
  if (dims.size() > 1) shape.resize(shape.size() - 2);
  shape += ")";
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr_of(dtype), shape);
  // The data begins at a multiple of 64 bytes; the header ends with a newline.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string file(kMagic);
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8 & 0xFF);
  file += header;
  file += bytes;
  return write_file_atomic(path, file);
}

}  // namespace opforge
