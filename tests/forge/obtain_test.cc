// Artifacts through the store: compiled once, described anew, never half-made.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "toolchain/host_compiler.hpp"
#include "toolchain/kernel_fixture.hpp"

namespace opforge {
namespace {

using test::Folder;
using test::put;
using test::Setting;

class Obtain : public testing::Test {
 protected:
  Obtain() : op_(test::scale_rows(folder_ / "op")), store_(*Store::open(folder_ / "store")) {
    develop();
  }

  Result<Store::Loaded> get(bool& compiled) {
    return obtain(op_, op_.kernels.front(), test::cpu_variant(op_), store_, &compiled);
  }
  // The real compiler behind a script that notes each unit it compiles.
  Path counting_compiler(std::string_view work = {}) {
    const Path path = folder_ / "counting-cxx";
    put(path, "#!/bin/sh\ncase \"$*\" in *opforge_unit.so*) echo unit >> " +
                  (folder_ / "count").string() + "\n" + std::string(work) + " ;; esac\nexec " +
                  (*HostCompiler::find())->path().string() + " \"$@\"\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  int count() const {
    std::ifstream in(folder_ / "count");
    int lines = 0;
    for (std::string line; std::getline(in, line);) lines++;
    return lines;
  }

  Folder folder_;
  Operator op_;
  Store store_;
};

TEST_F(Obtain, CompilesOnceAndThenLoadsTheSame) {
  bool compiled = false;
  const auto first = get(compiled);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(compiled);
  const auto second = get(compiled);
  ASSERT_TRUE(second);
  EXPECT_FALSE(compiled);
  EXPECT_TRUE(first->code == second->code);
  EXPECT_EQ(first->artifact.code_digest, sha256(std::string_view(second->code)));
  EXPECT_EQ(*manifest_to_json(first->artifact), *manifest_to_json(second->artifact));
  EXPECT_EQ(first->artifact.defaults.size(), 1u);
  EXPECT_EQ(first->artifact.toolchain.version, (*HostCompiler::find())->version());
}

TEST_F(Obtain, ADeclarationThatDoesNotReachTheCodeIsDescribedAnew) {
  bool compiled = false;
  const auto first = get(compiled);
  ASSERT_TRUE(first) << first.error().message;
  op_.tolerances.high_precision.a += 1;
  op_.kernels[0].preconditions = {{PreconditionKind::kAlignment, 64, {}}};
  op_.kernels[0].tunables[0].initial = "1";
  const auto second = get(compiled);
  ASSERT_TRUE(second);
  EXPECT_FALSE(compiled);
  EXPECT_EQ(second->artifact.preconditions.size(), 1u);
  EXPECT_EQ(second->artifact.defaults.at(0).initial, "1");
  EXPECT_NE(second->artifact.proof_key, first->artifact.proof_key);
}

TEST_F(Obtain, ASymlinkedToolchainCompilesNothing) {
  bool compiled = false;
  ASSERT_TRUE(get(compiled));
  std::filesystem::create_symlink((*HostCompiler::find())->path(), folder_ / "g++");
  const Setting setting("OPFORGE_CXX", (folder_ / "g++").string());
  ASSERT_TRUE(get(compiled));
  EXPECT_FALSE(compiled);
}

TEST_F(Obtain, AFailedCompilerPublishesNothing) {
  const Path compiler = counting_compiler(": > opforge_unit.so; exit 1");
  {
    const Setting setting("OPFORGE_CXX", compiler.string());
    bool compiled = false;
    const auto failed = get(compiled);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kToolchain);
    EXPECT_TRUE(store_.list()->empty());
  }
  bool compiled = false;
  EXPECT_TRUE(get(compiled));
}

TEST_F(Obtain, AMissingToolchainIsUnavailable) {
  const Setting setting("OPFORGE_CXX", "no-such-compiler");
  bool compiled = false;
  const auto failed = get(compiled);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
}

TEST_F(Obtain, SixteenProcessesCompileOnce) {
  const Setting setting("OPFORGE_CXX", counting_compiler().string());
  std::vector<pid_t> children;
  for (int i = 0; i < 16; i++) {
    const pid_t child = fork();
    if (child == 0) {
      bool compiled = false;
      auto store = Store::open(folder_ / "store");
      _exit(store && obtain(op_, op_.kernels.front(), test::cpu_variant(op_), *store, &compiled)
                ? 0
                : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(count(), 1);
}

// Without a store that can be written, everything still works, and what is stored is used.
TEST_F(Obtain, AReadOnlyStoreServesWhatItHas) {
  bool compiled = false;
  const auto first = get(compiled);
  ASSERT_TRUE(first) << first.error().message;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    std::filesystem::permissions(entry.path(),
                                 std::filesystem::perms(entry.is_directory() ? 0555 : 0444));
  }
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
  std::filesystem::permissions(folder_ / "store", std::filesystem::perms(0555));
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    auto store = Store::open(folder_ / "store");
    if (!store) _exit(3);
    bool ran = true;
    const auto again = obtain(op_, op_.kernels.front(), test::cpu_variant(op_), *store, &ran);
    if (!again) _exit(4);
    if (ran || again->code != first->code) _exit(5);
    const auto other = obtain(op_, op_.kernels.front(),
                              test::cpu_variant(op_, "x86-64-v2", DType::kBF16), *store, &ran);
    _exit(other && ran ? 0 : 6);  // compiled, though it cannot be kept
  }
  int status = 1;
  waitpid(child, &status, 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all);
  }
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ProofKey, CoversMeaningReferenceAndTolerancesOnly) {
  Folder folder;
  Operator op = test::scale_rows(folder.path());
  const Digest before = *proof_key(op);
  op.cases.clear();
  op.description = "other words";
  op.kernels.clear();
  put(folder / "cpu.cc", "changed");
  EXPECT_EQ(*proof_key(op), before);
  Operator changed = op;
  changed.tolerances.fast.a = 7;
  EXPECT_NE(*proof_key(changed), before);
  changed = op;
  changed.signature.tensors[1].optional = false;
  EXPECT_NE(*proof_key(changed), before);
  put(folder / "reference.cc", std::string(test::kScaleReference) + "// other loops\n");
  EXPECT_NE(*proof_key(op), before);
}

}  // namespace
}  // namespace opforge
