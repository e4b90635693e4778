#include "base/dynlib.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"

namespace opforge {
namespace {

TEST(DynamicLibrary, TakesTheFirstThatLoads) {
  const std::vector<std::string> names{"libopforge-no-such.so.9", "libm.so.6", "libc.so.6"};
  auto library = DynamicLibrary::open_first(names);
  ASSERT_TRUE(library);
  EXPECT_NE(library->path().find("libm.so"), std::string::npos);
  ASSERT_EQ(library->attempts().size(), 1u);
  EXPECT_EQ(library->attempts()[0].rfind("libopforge-no-such.so.9: ", 0), 0u);
  ASSERT_NE(library->symbol("cos"), nullptr);
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(library->symbol("cos"))(0.0), 1.0);
  EXPECT_EQ(library->symbol("opforge_no_such_symbol"), nullptr);
  DynamicLibrary moved = std::move(*library);
  EXPECT_NE(moved.symbol("cos"), nullptr);
  EXPECT_EQ(DynamicLibrary().symbol("cos"), nullptr);
}

TEST(DynamicLibrary, EveryAttemptIsListedWithItsReason) {
  auto dir = TempDir::create(std::filesystem::temp_directory_path(), "opforge-dynlib").value();
  const auto empty = (dir.path() / "libempty.so").string(),
             text = (dir.path() / "libtext.so").string();
  const auto stub = (dir.path() / "stubs/libcuda.so").string(),
             absent = (dir.path() / "absent.so").string();
  ASSERT_TRUE(make_dirs(dir.path() / "stubs"));
  ASSERT_TRUE(write_file_atomic(empty, ""));
  ASSERT_TRUE(write_file_atomic(
      text, "not a library at all, but long enough to have a header of 64 bytes........"));
  ASSERT_TRUE(write_file_atomic(stub, "x"));
  const std::vector<std::string> names{empty, text, stub, absent, dir.path().string()};
  const auto library = DynamicLibrary::open_first(names);
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, Code::kNotFound);
  const auto& message = library.error().message;
  for (const auto& name : names) EXPECT_NE(message.find(name + ": "), std::string::npos) << message;
  EXPECT_NE(message.find("empty file"), std::string::npos);
  EXPECT_NE(message.find("stub"), std::string::npos);
  EXPECT_NE(message.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace opforge
