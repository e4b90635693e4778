// What changes the code key of a C++ kernel, and what does not.
#include <sys/wait.h>
#include <unistd.h>

#include "backends/code_fixture.hpp"
#include "toolchain/host_compiler.hpp"

namespace opforge {
namespace {

using test::Folder;
using test::put;
using test::Setting;

Digest key(const Operator& op, const Variant& variant) {
  const auto digest = test::key_of(op, variant);
  EXPECT_TRUE(digest) << digest.error().message;
  return digest ? *digest : Digest{};
}
Digest key(const Operator& op) { return key(op, test::cpu_variant(op)); }

TEST(CodeKey, FollowsHelpersThatACompileTimeChoiceSelects) {
  Folder folder;
  constexpr std::string_view kChoosing =
      "#include \"opforge_types.hpp\"\n#include \"fast.hpp\"\n#include \"slow.hpp\"\n"
      "template <class V> void scale_rows(const void* x, const void*, void* y, long long n, long "
      "long, long long, float a,"
      " long, long) { for (long long i = 0; i < n; i++) { float f = static_cast<const "
      "float*>(x)[i];"
      " static_cast<float*>(y)[i] = V::GRAIN > 2 ? fast(f, a) : slow(f, a); } }\n";
  put(folder / "fast.hpp", "inline float fast(float x, float a) { return x * a; }\n");
  put(folder / "slow.hpp", "inline float slow(float x, float a) { return x * a; }\n");
  const Operator op = test::scale_rows(folder.path(), kChoosing);
  const Digest before = key(op);
  put(folder / "fast.hpp", "inline float fast(float x, float a) { return x + a; }\n");
  EXPECT_NE(key(op), before);
  const auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op));
  ASSERT_TRUE(compiled) << compiled.error().message;
  const test::OpenCode code(compiled->code, compiled->symbols.begin()->second);
  const float x = 3;
  float y = 0;
  test::Slots slots;
  slots.add(&x)
      .add<const void*>(nullptr)
      .add(&y)
      .add<long long>(1)
      .add<long long>(1)
      .add<long long>(1)
      .add(10.0f);
  code.function(slots.data(), 0, 1);
  EXPECT_EQ(y, 13);
}

TEST(CodeKey, FollowsConstantsInHelpers) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  const Digest before = key(op);
  put(folder / "helper.hpp", "#pragma once\ninline constexpr float kHelperFactor = 3.0f;\n");
  const Digest after = key(op);
  EXPECT_NE(after, before);
  put(folder / "helper.hpp", "#pragma once\ninline constexpr float kHelperFactor = 1.0f;\n");
  EXPECT_EQ(key(op), before);
}

TEST(CodeKey, DependsOnEverythingThatReachesTheCode) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  const Variant variant = test::cpu_variant(op);
  std::set<Digest> keys{key(op, variant)};
  const auto differs = [&](const Operator& changed, const Variant& v, const char* what) {
    EXPECT_TRUE(keys.insert(key(changed, v)).second) << what;
  };
  Variant v = variant;
  v.values["GRAIN"] = std::int64_t{16};
  differs(op, v, "tunable");
  v = variant;
  v.baked["negate"] = std::int64_t{1};
  differs(op, v, "baked attribute");
  differs(op, test::cpu_variant(op, "x86-64-v2", DType::kBF16), "dtype");
  differs(op, test::cpu_variant(op, "x86-64-v3"), "target");
  Operator changed = op;
  changed.kernels[0].options = {"-DX=1"};
  differs(changed, variant, "options");
  changed = op;
  changed.kernels[0].launch.steps[0].block[0] = "1";
  differs(changed, variant, "launch record");
  changed = op;
  changed.kernels[0].launch.steps[0].bindings[3].type = ParamType::kI32;
  differs(changed, variant, "parameter type");
}

TEST(CodeKey, IgnoresWhatDoesNotReachTheCode) {
  Folder folder;
  Operator op = test::scale_rows(folder.path());
  const Digest before = key(op);
  op.cases.push_back({"other", {{"M", std::int64_t{9}}, {"N", std::int64_t{9}}}, {}, 7});
  op.description = "another text";
  op.formula = "another formula";
  op.tolerances.high_precision = {9, 9};
  op.kernels[0].description = "another text";
  put(folder / "README.md", "words");
  put(folder / "unused.hpp", "int unused;");
  std::filesystem::last_write_time(
      folder / "cpu.cc", std::filesystem::file_time_type::clock::now() - std::chrono::hours(48));
  EXPECT_EQ(key(op), before);
  Folder other;
  Operator moved = op;
  std::filesystem::copy(folder.path(), other / "moved", std::filesystem::copy_options::recursive);
  moved.folder = (other / "moved").string();
  EXPECT_EQ(key(moved), before);
}

TEST(CodeKey, FollowsTheBackendsHeadersWhateverTheirTime) {
  Folder folder;
  const Operator op = test::scale_rows(folder / "op");
  const Path copy = folder / "root";
  const Path include = Path("backends") / "cpu" / "include";
  std::filesystem::create_directories(copy / include);
  std::filesystem::copy(source_root() / include, copy / include);
  const Digest before = key(op);
  const Setting setting("OPFORGE_SOURCE_DIR", copy.string());
  EXPECT_EQ(key(op), before) << "the same bytes in another folder";
  const Path header = copy / include / "opforge_types.hpp";
  const auto time = std::filesystem::last_write_time(header);
  const std::string text = *read_file(header);
  put(header, text + "// changed\n");
  std::filesystem::last_write_time(header, time - std::chrono::hours(24));
  EXPECT_NE(key(op), before);
}

TEST(CodeKey, SameThroughASymlinkedCompiler) {
  Folder folder;
  const Operator op = test::scale_rows(folder / "op");
  const Digest before = key(op);
  const auto real = HostCompiler::find();
  ASSERT_TRUE(real);
  std::filesystem::create_symlink((*real)->path(), folder / "g++");
  const Setting setting("OPFORGE_CXX", (folder / "g++").string());
  EXPECT_EQ(key(op), before);
}

// In a process of its own, B has the key that it has after A.
TEST(CodeKey, DoesNotDependOnWhatWasBuiltBefore) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  const Variant b = test::cpu_variant(op, "x86-64-v2", DType::kBF16);
  const auto in_child = [&](bool a_first) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      develop();
      if (a_first) (void)test::compile(op, op.kernels.front(), test::cpu_variant(op));
      const auto digest = test::key_of(op, b);
      const std::string hex = digest ? digest->hex() : digest.error().message;
      _exit(write(ends[1], hex.data(), hex.size()) == ssize_t(hex.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string text(200, '\0');
    const ssize_t size = read(ends[0], text.data(), text.size());
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return text.substr(0, std::size_t(std::max<ssize_t>(size, 0)));
  };
  const std::string alone = in_child(false), after = in_child(true);
  EXPECT_EQ(alone.size(), 64u) << alone;
  EXPECT_EQ(alone, after);
}

}  // namespace
}  // namespace opforge
