// The expected bytes are what NumPy 1.26 writes for the same arrays (numpy.lib.format, version 1.0).
#include "tensor/npy.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"

namespace opforge {
namespace {

std::string numpy_file(std::string header, std::string_view data, char version = 1) {
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string file("\x93NUMPY", 6);
  file += version;
  file += '\0';
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(data);
}

TEST(Npy, ReadsWhatNumPyWrites) {
  const float values[] = {1.5f, -2.f, 3.f, 4.f, 5.f, 6.f};
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  auto array = parse_npy(numpy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", data), "x");
  ASSERT_TRUE(array.has_value()) << array.error().message;
  EXPECT_EQ(array->dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(array->dtype, DType::kF32);
  EXPECT_EQ(array->bytes, data);
}

TEST(Npy, FortranOrderIsTransposed) {
  const double column_major[] = {1, 4, 2, 5, 3, 6};  // [[1,2,3],[4,5,6]]
  auto array = parse_npy(numpy_file("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }",
                                    {reinterpret_cast<const char*>(column_major), sizeof column_major}), "x");
  ASSERT_TRUE(array.has_value()) << array.error().message;
  const double* row_major = reinterpret_cast<const double*>(array->bytes.data());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(row_major[i], i + 1);
}

TEST(Npy, TwoByteDataIsReinterpreted) {
  auto array = parse_npy(numpy_file("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", std::string_view("\x80\x3f\0\x40", 4)), "x");
  ASSERT_TRUE(array.has_value());
  EXPECT_FALSE(array->dtype.has_value());
  ASSERT_TRUE(array->reinterpret_as(DType::kBF16));
  EXPECT_EQ(load_as_double(array->bytes.data(), *array->dtype), 1.0);
  const auto wrong = array->reinterpret_as(DType::kF32);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("2 bytes"), std::string::npos);
}

TEST(Npy, RoundTripOfEveryRank) {
  auto folder = TempDir::create(std::filesystem::temp_directory_path());
  ASSERT_TRUE(folder.has_value());
  const std::vector<std::vector<std::int64_t>> shapes{{}, {0}, {3}, {2, 0}, {1, 3}, {2, 1, 3}};
  for (const auto& dims : shapes) {
    std::int64_t count = 1;
    for (auto dim : dims) count *= dim;
    const std::string bytes(static_cast<std::size_t>(count) * 4, 'a');
    const Path path = folder->path() / "t.npy";
    ASSERT_TRUE(write_npy(path, DType::kF32, dims, bytes));
    auto back = read_npy(path);
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(back->dims, dims);
    EXPECT_EQ(back->bytes, bytes);
  }
}

TEST(Npy, DamageIsNamed) {
  const std::string good = numpy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", std::string(24, 'x'));
  for (std::size_t length = 0; length < good.size(); ++length) {
    auto cut = parse_npy(std::string_view(good).substr(0, length), "cut.npy");
    ASSERT_FALSE(cut.has_value()) << length;
    EXPECT_EQ(cut.error().code, Code::kCorrupt);
    EXPECT_NE(cut.error().message.find("cut.npy"), std::string::npos);
  }
  for (const char* shape : {"(2, -3)", "(99999999999999, 99999999999999)", "(2, x)", "()"}) {
    const auto bad = parse_npy(numpy_file(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + ", }", "ab"), "x");
    EXPECT_FALSE(bad.has_value()) << shape;
  }
  const auto foreign = parse_npy(numpy_file("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", std::string(8, 'x')), "x");
  ASSERT_FALSE(foreign.has_value());
  EXPECT_NE(foreign.error().message.find("<c8"), std::string::npos);
}

}  // namespace
}  // namespace opforge
