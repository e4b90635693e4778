// The NVRTC toolchain. What needs NVRTC is skipped by name where it is absent; nothing here needs a
// GPU.
#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "artifact/cubin.hpp"
#include "backends/cuda/toolchain.hpp"
#include "backends/cuda_harness.hpp"
#include "runtime/seal.hpp"

namespace opforge::test {
namespace {

using cu::CudaToolchain;

constexpr const char* kScale = R"(#include "opforge_cuda.cuh"
#include "constant.cuh"
template <class V>
__device__ void scale(const void* x, void* y, float alpha, long long n) {
  const long long i = blockIdx.x * (long long)V::THREADS + threadIdx.x;
  if (i >= n) return;
  const auto* from = static_cast<const typename V::T*>(x);
  auto* to = static_cast<typename V::T*>(y);
  opforge::store_float(to + i, opforge::load_float(from + i) * alpha + kShift);
}
)";

// An operator folder of its own for each test.
class CudaToolchainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    develop();
    write("cuda.cu", kScale);
    write("constant.cuh", "constexpr float kShift = 1.0f;\n");
    op.signature.name = "test.scale";
    op.signature.tensors = {{"x", {"N"}, "T"}, {"y", {"N"}, "T", Access::kWrite}};
    op.signature.attributes = {{"alpha", AttrType::kFloat}};
    op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
    op.folder = folder();
    kernel.id = "scale.cuda";
    kernel.backend = "cuda";
    kernel.sources = {"cuda.cu"};
    LaunchStep step;
    step.entry = "scale";
    step.bindings = {{"x", ParamType::kPtr, "x"},
                     {"y", ParamType::kPtr, "y"},
                     {"alpha", ParamType::kF32, "alpha"},
                     {"n", ParamType::kI64, "N"}};
    step.grid = {"ceil_div(N, THREADS)", "", ""};
    step.block = {"THREADS", "", ""};
    kernel.launch.steps = {step};
  }
  std::string folder() const { return dir.path().string(); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(dir.path() / name) << text;
  }

  CompileRequest request(const std::string& target = "sm_90a", DType dtype = DType::kF32) {
    CompileRequest r;
    r.op = &op;
    r.kernel = &kernel;
    r.target = *parse_target(target);
    r.variant.op = op.signature.name;
    r.variant.kernel = kernel.id;
    r.variant.backend = "cuda";
    r.variant.target = target;
    r.variant.dtypes = {{"T", dtype}};
    r.variant.values = {{"THREADS", std::int64_t{256}}};
    return r;
  }
  Digest key(CompileRequest r) {
    auto made = code_key(toolchain, r);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : Digest{};
  }
  Result<Compiled> compile(CompileRequest r) {
    OPFORGE_TRY(code_key(toolchain, r));
    return toolchain.compile(r);
  }

  TempDir dir = std::move(*TempDir::create(OPFORGE_BINARY_DIR));
  Operator op;
  KernelDecl kernel;
  CudaToolchain toolchain;
};

#define NEEDS_NVRTC()                                      \
  if (const Support there = toolchain.available(); !there) \
  GTEST_SKIP() << "NVRTC is not on this machine: " << there.reason()

TEST_F(CudaToolchainTest, ServesTargetsWhateverTheMachine) {
  for (const char* yes : {"sm_80", "sm_90a", "sm_100a", "compute_80"})
    EXPECT_TRUE(toolchain.serves(*parse_target(yes))) << yes;
  for (const char* no : {"x86-64-v3", "sm_75"}) {
    const auto target = parse_target(no);
    EXPECT_FALSE(target && toolchain.serves(*target)) << no;
  }
}

TEST_F(CudaToolchainTest, AbsentCompilerSaysHowToGetIt) {
  CudaToolchain absent({{"/no/such/libnvrtc.so"}, {"/no/such/include"}});
  const Support support = absent.available();
  ASSERT_FALSE(support);
  EXPECT_TRUE(mentions(support.reason(),
                       {"/no/such/libnvrtc.so", "opforge doctor --install cuda", "OPFORGE_NVRTC"}));
  EXPECT_EQ(absent.stamp().error().code, Code::kToolchain);
}

TEST_F(CudaToolchainTest, GeneratedUnit) {
  CompileRequest r = request("sm_90a", DType::kBF16);
  const auto unit = cu::generate_unit(r);
  ASSERT_TRUE(unit) << unit.error().message;
  const std::string symbol = unit->symbols.at("scale");
  EXPECT_TRUE(mentions(
      unit->text, {"#include \"cuda.cu\"", "using T = opforge::bf16;",
                   "static constexpr long long THREADS = 256ll;", "extern \"C\" __global__ void",
                   "__launch_bounds__(256) ", symbol, "const void* p0", "void* p1", "float p2",
                   "long long p3", "scale<V>(p0, p1, p2, p3)"}));
  kernel.launch.steps[0].block = {"min(THREADS, N)", "", ""};
  EXPECT_EQ(cu::generate_unit(r)->text.find("__launch_bounds__"), std::string::npos);
}

TEST_F(CudaToolchainTest, CompilesForEveryKindOfTargetAndDtype) {
  NEEDS_NVRTC();
  for (const char* target : {"sm_80", "sm_90a", "sm_90", "compute_80"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto compiled = compile(request(target, dtype));
      ASSERT_TRUE(compiled) << compiled.error().message;
      const std::string symbol = compiled->symbols.at("scale");
      if (std::string(target) == "compute_80") {
        EXPECT_EQ(compiled->kind, CodeKind::kPtx);
        const auto ptx = read_ptx(compiled->code);
        ASSERT_TRUE(ptx);
        EXPECT_EQ(ptx->arch, 80);
        EXPECT_EQ(ptx->entries, std::vector<std::string>{symbol});
        EXPECT_GE(compiled->min_driver, 12000);
        continue;
      }
      EXPECT_EQ(compiled->kind, CodeKind::kCubin);
      EXPECT_EQ(compiled->min_driver % 1000, 0);
      const auto cubin = read_cubin(compiled->code);
      ASSERT_TRUE(cubin);
      const auto* k = cubin->find(symbol);
      ASSERT_NE(k, nullptr);
      ASSERT_EQ(k->params.size(), 4u);  // two pointers, a float, a 64-bit integer
      EXPECT_EQ(k->params[2].size_bytes, 4u);
      EXPECT_EQ(k->params[2].offset_bytes, 16u);
      EXPECT_EQ(k->params[3].offset_bytes, 24u);
      EXPECT_GT(compiled->resources.registers, 0);
      EXPECT_GT(compiled->resources.code_bytes, 0);
      EXPECT_EQ(compiled->resources.shared_bytes, 0);
    }
  }
}

// Static shared memory without what the system keeps (1 KB from sm_90 on).
TEST_F(CudaToolchainTest, ResourcesComeFromTheCode) {
  NEEDS_NVRTC();
  write("cuda.cu", R"(
template <class V>
__device__ void scale(const void* x, void* y, float alpha, long long n) {
  __shared__ float part[300];
  part[threadIdx.x] = static_cast<const float*>(x)[threadIdx.x];
  __syncthreads();
  static_cast<float*>(y)[threadIdx.x] = part[(threadIdx.x + n) % 256] * alpha;
})");
  for (const char* target : {"sm_80", "sm_90a"}) {
    const auto compiled = compile(request(target));
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_EQ(compiled->resources.shared_bytes, 1200) << target;
  }
}

TEST_F(CudaToolchainTest, SameBytesFromTwoFolders) {
  NEEDS_NVRTC();
  const auto first = compile(request());
  ASSERT_TRUE(first) << first.error().message;
  auto other = TempDir::create(OPFORGE_BINARY_DIR, "elsewhere");
  for (const char* name : {"cuda.cu", "constant.cuh"})
    std::filesystem::copy(dir.path() / name, other->path() / name);
  const Digest key_here = key(request());
  op.folder = other->path().string();
  EXPECT_EQ(key(request()), key_here);
  CudaToolchain again;
  CompileRequest r = request();
  ASSERT_TRUE(code_key(again, r));
  const auto second = again.compile(r);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->code, second->code);
  EXPECT_EQ(first->code.find(OPFORGE_BINARY_DIR), std::string::npos);
  const auto ptx = compile(request("compute_80"));
  ASSERT_TRUE(ptx);
  EXPECT_EQ(ptx->code.find(OPFORGE_BINARY_DIR), std::string::npos);
}

TEST_F(CudaToolchainTest, ThreadsCompileAtOnce) {
  NEEDS_NVRTC();
  const std::string alone = compile(request())->code;
  std::vector<std::string> made(4);
  std::vector<std::thread> threads;
  for (auto& code : made) threads.emplace_back([&] { code = compile(request())->code; });
  for (auto& thread : threads) thread.join();
  for (const auto& code : made) EXPECT_EQ(code, alone);
}

TEST_F(CudaToolchainTest, KeysFollowContentAndNothingElse) {
  NEEDS_NVRTC();
  const Digest first = key(request());
  EXPECT_EQ(key(request()), first);
  EXPECT_NE(key(request("sm_80")), first);
  EXPECT_NE(key(request("sm_90")), first) << "sm_90 and sm_90a are different code";
  EXPECT_NE(key(request("sm_90a", DType::kBF16)), first);
  CompileRequest wider = request();
  wider.variant.values["THREADS"] = std::int64_t{512};
  EXPECT_NE(key(wider), first);
  // A constant in a helper, with a time that is older than before.
  write("constant.cuh", "constexpr float kShift = 2.0f;\n");
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (dir.path() / "constant.cuh").c_str(), past, 0), 0);
  EXPECT_NE(key(request()), first);
  const auto edited = compile(request());
  write("constant.cuh", "constexpr float kShift = 1.0f;\n");
  EXPECT_EQ(key(request()), first);
  EXPECT_NE(compile(request())->code, edited->code);
  kernel.options = {"--use_fast_math"};
  EXPECT_NE(key(request()), first);
}

// A copy of the toolkit's headers: same content, another place; then one byte more.
TEST_F(CudaToolchainTest, ToolkitHeadersCountWhenTheyAreUsed) {
  NEEDS_NVRTC();
  const auto places = cu::nvrtc_places();
  const auto headers = cu::toolkit_headers(places.includes);
  if (!headers) GTEST_SKIP() << "no CUDA headers on this machine: " << headers.error().message;
  write("cuda.cu", std::string("#include <cuda_bf16.h>\n") + kScale);
  const auto copy = dir.path() / "include";
  std::filesystem::create_directory(copy);
  for (const auto& [name, bytes] : *headers) std::ofstream(copy / name) << bytes;
  CudaToolchain copied({places.libraries, {copy}});
  CompileRequest here = request(), there = request();
  ASSERT_TRUE(code_key(toolchain, here));
  ASSERT_TRUE(code_key(copied, there));
  EXPECT_EQ(here.code_key, there.code_key);
  EXPECT_TRUE(copied.compile(there));
  std::ofstream(copy / "cuda_fp16.hpp", std::ios::app) << "\n";
  ASSERT_TRUE(code_key(copied, there));
  EXPECT_NE(here.code_key, there.code_key);
  CudaToolchain without({places.libraries, {"/no/such/include"}});
  EXPECT_TRUE(mentions(code_key(without, there).error().message,
                       {"cuda_fp16.h", "/no/such/include", "--install cuda"}));
}

TEST_F(CudaToolchainTest, SameCompilerThroughASymlink) {
  NEEDS_NVRTC();
  const auto nvrtc = cu::Nvrtc::open(cu::nvrtc_places().libraries);
  ASSERT_TRUE(nvrtc);
  const auto link = dir.path() / "libnvrtc.so.99";
  std::filesystem::create_symlink((*nvrtc)->path(), link);
  CudaToolchain linked({{link.string()}, {}});
  EXPECT_EQ(linked.stamp()->digest, toolchain.stamp()->digest);
  EXPECT_EQ(linked.stamp()->version, toolchain.stamp()->version);
}

TEST_F(CudaToolchainTest, CompilerErrorsAreShown) {
  NEEDS_NVRTC();
  write("cuda.cu",
        "template <class V> __device__ void scale(const void*, void*, float, long long) { "
        "nonsense(); }\n");
  const auto compiled = compile(request());
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code, Code::kToolchain);
  EXPECT_TRUE(mentions(compiled.error().message, {"scale.cuda", "sm_90a", "nonsense", "cuda.cu"}));
}

TEST_F(CudaToolchainTest, ForeignIncludesAndOptionsAreRefused) {
  NEEDS_NVRTC();
  CompileRequest r = request();
  write("cuda.cu", "#include <vector>\n");
  EXPECT_TRUE(
      mentions(code_key(toolchain, r).error().message, {"scale.cuda", "<vector>", "cuda_fp16.h"}));
  write("cuda.cu", "#include \"../secret.h\"\n");
  EXPECT_TRUE(mentions(code_key(toolchain, r).error().message, {"scale.cuda", "secret.h"}));
  write("cuda.cu", kScale);
  for (const char* option :
       {"-I/usr/include", "--include-path=/x", "-lineinfo", "--gpu-architecture=sm_80"}) {
    kernel.options = {option};
    EXPECT_TRUE(mentions(code_key(toolchain, r).error().message, {"scale.cuda", option}));
  }
  kernel.options = {"--fmad=false"};
  EXPECT_TRUE(compile(request()));
}

TEST_F(CudaToolchainTest, DeterministicKernelsMayNotAddFloatsAtomically) {
  NEEDS_NVRTC();
  write("cuda.cu", R"(
template <class V>
__device__ void scale(const void* x, void* y, float alpha, long long n) {
  atomicAdd(static_cast<float*>(y), static_cast<const float*>(x)[threadIdx.x] * alpha);
})");
  EXPECT_TRUE(compile(request()));
  for (const char* target : {"sm_90a", "compute_80"}) {
    CompileRequest r = request(target);
    r.variant.tier = Tier::kDeterministic;
    const auto compiled = compile(r);
    ASSERT_FALSE(compiled) << target;
    EXPECT_TRUE(mentions(compiled.error().message, {"DETERMINISTIC", "f32"}));
  }
}

TEST_F(CudaToolchainTest, UnknownArchitectureListsThoseThatItKnows) {
  NEEDS_NVRTC();
  const auto target = parse_target("sm_199");
  if (!target) GTEST_SKIP() << "no such target name";
  CompileRequest r = request();
  r.target = *target;
  EXPECT_TRUE(mentions(toolchain.compile(r).error().message, {"sm_199", "90"}));
}

TEST_F(CudaToolchainTest, NothingCompilesWhenSealed) {
  NEEDS_NVRTC();
  CompileRequest r = request();
  ASSERT_TRUE(code_key(toolchain, r));
  EXPECT_EXIT(
      {
        seal();
        const auto compiled = toolchain.compile(r);
        std::_Exit(!compiled && compiled.error().code == Code::kCompilationSealed &&
                           !sealed_misses().empty()
                       ? 7
                       : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

// The helper header's own code, for every architecture and through every function.
TEST_F(CudaToolchainTest, HelperHeaderCompilesEverywhere) {
  NEEDS_NVRTC();
  write("cuda.cu", R"(#include "opforge_cuda.cuh"
using namespace opforge;
template <class V, int GROUP, int VEC>
__device__ void row(const typename V::T* x, typename V::T* y, float alpha, long long n) {
  using G = Group<256, GROUP>;
  __shared__ typename G::template Scratch<float> a, b;
  __shared__ typename G::template Scratch<float2> c;
  __shared__ float2 peers[16];
  dependency_wait();
  Vector<typename V::T, VEC> v;
  v.fill(-infinity());
  const long long at = (long long)G::rank() * VEC;
  if (at < n && can_access<typename V::T, VEC>(x)) v = load<VEC>(x + at);
  float f[VEC], m = quiet_nan();
  v.unpack(f);
  for (int i = 0; i < VEC; ++i) m = nan_max(m, f[i]);
  m = G::max(m, a);
  float s = 0;
  for (int i = 0; i < VEC; ++i) s += f[i] = approx_exp2((f[i] - m) * kLog2e);
  s = G::sum(s, b);
  float2 q = G::reduce(make_float2(s, m), [](float2 u, float2 w) { return make_float2(u.x + w.x, nan_max(u.y, w.y)); }, c);
  cluster_sync();
  if (threadIdx.x < cluster_size()) cluster_store(&peers[cluster_rank()], threadIdx.x, q);
  cluster_sync();
  q.x += peers[0].x;
  for (int i = 0; i < VEC; ++i) f[i] *= approx_rcp(q.x) * approx_rsqrt(alpha);
  v.pack(f);
  dependents_launch();
  if (at < n) store(y + at, v);
  if (elements_to_boundary(x, n) > 0) store_float(y, load_float<Cache::kKept>(x + 1));
}
template <class V>
__device__ void scale(const void* x, void* y, float alpha, long long n) {
  const auto* from = static_cast<const typename V::T*>(x);
  auto* to = static_cast<typename V::T*>(y);
  row<V, 256, 8>(from, to, alpha, n);
  row<V, 64, 4>(from, to, alpha, n);
  row<V, 32, 16>(from, to, alpha, n);
  row<V, 8, 2>(from, to, alpha, n);
  row<V, 1, 1>(from, to, alpha, n);
})");
  for (const char* target : {"sm_80", "sm_90a", "compute_80"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      CompileRequest r = request(target, dtype);
      r.variant.tier = Tier::kDeterministic;
      const auto compiled = compile(r);
      ASSERT_TRUE(compiled) << compiled.error().message;
      EXPECT_EQ(compiled->log, "");
    }
  }
}

}  // namespace
}  // namespace opforge::test
