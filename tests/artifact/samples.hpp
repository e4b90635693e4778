// Artifacts, sections and packs with every field set, for the tests of this layer; and helpers for
// faults.
#pragma once

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "artifact/pack.hpp"
#include "artifact/store.hpp"
#include "fixtures/launch_fixtures.hpp"

namespace opforge::samples {

inline Digest digest_of(const std::string& text) { return sha256(text); }

// Code that zstd shrinks (`compressible`) or does not.
inline std::string code_bytes(const std::string& seed, std::size_t size, bool compressible) {
  std::string out;
  Digest block = sha256(seed);
  while (out.size() < size) {
    if (!compressible || out.size() % 1024 == 0) block = sha256(block.hex());
    out.append(reinterpret_cast<const char*>(block.bytes.data()), 32);
  }
  out.resize(size);
  return out;
}

inline Artifact artifact(const std::string& op, int index, const std::string& code) {
  Artifact a;
  a.variant.op = op;
  a.variant.kernel = op + ".cuda.row";
  a.variant.backend = "cuda";
  a.variant.tier = index % 2 == 0 ? Tier::kHighPrecision : Tier::kDeterministic;
  a.variant.target = "sm_90a";
  a.variant.dtypes = {{"T", DType::kBF16}, {"W", DType::kF32}};
  a.variant.values = {{"THREADS", std::int64_t{256}}, {"VEC", std::int64_t{index}}};
  a.variant.baked = {
      {"approximate", std::string("tanh")}, {"eps", 1e-300}, {"zero_centered", std::int64_t{1}}};
  a.launch = fixtures::load_record(index % 2 == 0 ? "triton_matmul_hostdesc" : "cuda_steps");
  a.symbols = {{"row", "row_" + std::to_string(index)},
               {"finish", "finish_" + std::to_string(index)}};
  a.preconditions = {{PreconditionKind::kAlignment, 16, {}},
                     {PreconditionKind::kDTypeIn, 0, {DType::kBF16, DType::kF16}}};
  a.kind = CodeKind::kCubin;
  a.code_key = digest_of(op + std::to_string(index));
  a.code_digest = sha256(code);
  a.proof_key = digest_of("proof of " + op);
  a.toolchain = {"nvrtc", "13.0", digest_of("nvrtc")};
  a.resources = {40, 1024, 8, static_cast<std::int64_t>(code.size())};
  a.min_driver = 13000;
  Artifact::Default threads;
  threads.name = "THREADS";
  threads.initial = "min(1024, next_pow2(N / 8))";
  threads.values = {64, 128, 256, 1024};
  threads.changes_bits = true;
  Artifact::Default vec;
  vec.name = "VEC";
  vec.values = {1, 8};
  vec.specialisation = true;
  a.defaults = {threads, vec};
  return a;
}

inline Signature signature(const std::string& op) {
  Signature s;
  s.name = op;
  s.tensors = {fixtures::argument("x", {"...M", "N"}, "T"), fixtures::argument("w", {"N"}, "W"),
               fixtures::argument("y", {"...M", "2*N"}, "T", Access::kWrite)};
  s.tensors[1].optional = true;
  s.tensors[2].may_alias = {"x"};
  AttrArg eps;
  eps.name = "eps";
  eps.default_value = 1e-6;
  eps.min = 0.1;
  AttrArg mode;
  mode.name = "approximate";
  mode.type = AttrType::kText;
  mode.choices = {"tanh", "erf"};
  mode.baked = true;
  mode.baked_values = {std::string("tanh"), std::string("erf")};
  s.attributes = {eps, mode};
  s.dtypes = {{{"T", DType::kBF16}, {"W", DType::kF32}}, {{"T", DType::kF32}, {"W", DType::kF32}}};
  s.reduced_dims = {"N"};
  s.default_contract = Tier::kHighPrecision;
  s.backend_priority = {"cuda", "cpu"};
  s.deterministic_kernel = {{"cuda", op + ".cuda.row"}};
  return s;
}

inline TableEntry table_entry(const Artifact& a, std::int64_t rows) {
  TableEntry e;
  e.dtypes = a.variant.dtypes;
  e.dims = {{"M", rows}, {"N", std::int64_t{4096}}};
  e.attributes = {{"approximate", std::string("tanh")}, {"eps", 1e-6}};
  e.layout = "contiguous/16";
  e.device_model = "NVIDIA H200";
  e.target = a.variant.target;
  e.contract = Tier::kFast;
  e.code_key = a.code_key;
  e.median_us = 12.25;
  e.baseline_us = 13.0625;
  return e;
}

inline Attestation attestation(const Artifact& a, const SigningKey& key) {
  Attestation out;
  out.code_digest = a.code_digest;
  out.proof_key = a.proof_key;
  out.op = a.variant.op;
  out.variant = to_string(a.variant);
  out.device_model = "NVIDIA H200";
  out.tier = a.variant.tier;
  out.passed = true;
  out.worst_error_over_bound = 0.1 + 0.2;  // not a short decimal
  out.cases = 240;
  out.suite_version = "1";
  out.date = "2025-01-02T03:04:05Z";
  sign_attestation(out, key);
  return out;
}

// `ops` operators of `variants` variants each. Every fourth variant shares its code with the one
// before.
inline PackContents contents(int ops, int variants, std::size_t code_size = 3000) {
  PackContents out;
  for (int o = 0; o < ops; ++o) {
    OperatorSection section;
    section.signature = signature("group.op" + std::to_string(1000 + o));
    section.formula = "y = x / sqrt(mean(x^2) + eps) * w";
    std::string code;
    for (int v = 0; v < variants; ++v) {
      if (v % 4 != 3) {
        code = code_bytes(section.signature.name + std::to_string(v), code_size, v % 2 == 0);
        out.codes.push_back({sha256(code), code});
      }
      section.artifacts.push_back(artifact(section.signature.name, v, code));
      section.table.push_back(table_entry(section.artifacts.back(), 1 << (v % 14)));
    }
    out.sections.push_back(std::move(section));
  }
  return out;
}

inline Trust trusting(const SigningKey& key) {
  Trust trust;
  trust.keys = {key.public_hex()};
  return trust;
}

// A folder that everybody may enter, in memory where possible, removed at the end.
class Folder {
 public:
  Folder()
      : dir_(*TempDir::create(access("/dev/shm", W_OK) == 0
                                  ? Path("/dev/shm")
                                  : std::filesystem::temp_directory_path(),
                              "opforge-test")) {
    chmod(dir_.path().c_str(), 0755);
  }
  const Path& path() const { return dir_.path(); }
  Path operator/(const std::string& name) const { return dir_.path() / name; }

 private:
  TempDir dir_;
};

// Runs `body` in a child process and gives its exit status; -1 when it died by a signal.
inline int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The same as a user for whom permissions count: root becomes nobody.
inline int as_unprivileged(const std::function<int()>& body) {
  return in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 99;
    return body();
  });
}

// A tmpfs of `kib` KiB at `path` while this lives; mounted() is false where mounting is not
// allowed.
class SmallDisk {
 public:
  SmallDisk(Path path, int kib) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    const std::string options = "mode=0700,size=" + std::to_string(kib) + "k";
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  bool make_read_only() {
    return mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }
  const Path& path() const { return path_; }

 private:
  Path path_;
  bool mounted_ = false;
};

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

inline void write_bytes(const Path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace opforge::samples
