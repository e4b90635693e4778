// The text of OpenCL programs and the bytes of OpenCL code: no device is needed.
#include <gtest/gtest.h>

#include "backends/opencl/binary.hpp"
#include "backends/opencl/source.hpp"
#include "base/hash.hpp"

namespace opforge::test {
namespace {

using namespace ocl;

SourceSet files(std::vector<std::pair<std::string, std::string>> list) {
  SourceSet set;
  set.files = std::move(list);
  return set;
}

TEST(OpenClSource, FlattenIncludesEachFileOnceAndKeepsItsLines) {
  const auto text = flatten(files({{"a.h", "#pragma once\nint a;\n"},
                                   {"main.cl", "#include \"sub/b.h\"\n  # include \"a.h\"\nint m;"},
                                   {"sub/b.h", "#include \"c.h\"\n#include \"a.h\"\nint b;\n"},
                                   {"sub/c.h", "int c;\n"}}),
                            "main.cl");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text,
            "#line 1 \"main.cl\"\n"
            "#line 1 \"sub/b.h\"\n"
            "#line 1 \"sub/c.h\"\nint c;\n"
            "#line 2 \"sub/b.h\"\n"
            "#line 1 \"a.h\"\n\nint a;\n"
            "#line 3 \"sub/b.h\"\nint b;\n"
            "#line 2 \"main.cl\"\n"
            "#line 3 \"main.cl\"\nint m;\n");
}

TEST(OpenClSource, FlattenNamesWhatIsMissing) {
  const auto text = flatten(files({{"main.cl", "#include \"gone.h\"\n"}}), "main.cl");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::kInvalidDeclaration);
  EXPECT_NE(text.error().message.find("gone.h"), std::string::npos);
}

CodeImage sample() {
  return {{"pocl", "a CPU", "3.1", "OpenCL 3.0"},
          {"-cl-std=CL1.2", "-cl-mad-enable"},
          "kernel void k() {}\n\n",
          std::string("\0binary\n\xff", 9)};
}

TEST(OpenClImage, HoldsWhatWasPutIn) {
  const CodeImage in = sample();
  const auto out = unpack_image(pack_image(in));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->built_for, in.built_for);
  EXPECT_EQ(out->options, in.options);
  EXPECT_EQ(out->source, in.source);
  EXPECT_EQ(out->binary, in.binary);
}

TEST(OpenClImage, EveryCutIsRefused) {
  const std::string bytes = pack_image(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto out = unpack_image(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(out) << size;
    EXPECT_EQ(out.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(unpack_image(bytes + "x")) << "bytes that nobody wrote";
}

TEST(OpenClImage, DescriptionsThatLieAreRefused) {
  const std::string magic = "opforge opencl 1\n";
  for (
      const char* header :
      {"{}", "[]", "null", "{\"platform\":1}", "not json",
       R"({"platform":"p","device":"d","driver":"r","platform_version":"v","options":[1],"source_bytes":0,"binary_bytes":0})",
       R"({"platform":"p","device":"d","driver":"r","platform_version":"v","options":[],"source_bytes":18446744073709551615,"binary_bytes":1})",
       R"({"platform":"p","device":"d","driver":"r","platform_version":"v","options":[],"source_bytes":-1,"binary_bytes":1})"}) {
    const auto out = unpack_image(magic + header + "\n");
    ASSERT_FALSE(out) << header;
    EXPECT_EQ(out.error().code, Code::kCorrupt);
  }
}

TEST(OpenClImage, PoclsFolderNameComesFromTheKey) {
  const std::string head = std::string("poclbin", 8) + std::string(28, '\1');
  const std::string folder = "ND/NODAFJLLBNLKPCLBIJJLILFCDGCNHJMMBIMOC";
  ASSERT_EQ(folder.size(), 40u);
  std::string a = head + folder + std::string(1, '\0') + "code";
  std::string b = head + "BC/" + std::string(37, 'A') + std::string(1, '\0') + "code";
  make_reproducible(a, "key");
  make_reproducible(b, "key");
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.substr(0, 36), head) << "nothing else changes";
  EXPECT_EQ(a.substr(76), std::string(1, '\0') + "code");
  for (const char c : a.substr(36, 40)) EXPECT_TRUE(c == '/' || (c >= 'A' && c <= 'P')) << c;
  std::string other = head + folder + std::string(1, '\0') + "code";
  make_reproducible(other, "another key");
  EXPECT_NE(other, a);
}

TEST(OpenClImage, OtherBinariesStayAsTheyAre) {
  for (std::string binary :
       {std::string(), std::string("poclbin", 8), std::string(200, 'A'),
        std::string("poclbin", 8) + std::string(28, '\1') +
            "ND/nodafjllbnlkpclbijjlilfcdgcnhjmmbimoc" + std::string(1, '\0') + "code",
        std::string("poclbin", 8) + std::string(28, '\1') + std::string(60, 'A')}) {
    const std::string before = binary;
    make_reproducible(binary, "key");
    EXPECT_EQ(binary, before);
  }
}

TEST(OpenClIcd, AMissingLoaderIsNamedWithWhatWasTried) {
  const auto icd = load_icd({"/nowhere/libOpenCL.so.1", "libno-such-library.so.9"});
  ASSERT_FALSE(icd);
  EXPECT_NE(icd.error().message.find("/nowhere/libOpenCL.so.1"), std::string::npos);
  EXPECT_NE(icd.error().message.find("libno-such-library.so.9"), std::string::npos);
}

TEST(OpenClIcd, ALibraryThatIsNoLoaderIsRefused) {
  const auto icd = load_icd({"libc.so.6"});
  ASSERT_FALSE(icd);
  EXPECT_EQ(icd.error().code, Code::kIncompatible);
  EXPECT_NE(icd.error().message.find("clGetPlatformIDs"), std::string::npos);
}

}  // namespace
}  // namespace opforge::test
