// A stand-in for devices and compilers: candidates with planted times and faults, under seeded
// noise.
#pragma once

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <string>

#include "tune/tuner.hpp"

namespace opforge::test {

struct Planted {
  double time_us = 100;
  TrialOutcome check = TrialOutcome::kMeasured;   // what checking says
  TrialOutcome timing = TrialOutcome::kMeasured;  // what timing says
  std::string rejected;                           // of its reading
  bool compiles = true;
  Resources resources;
};

inline Operator plain_operator() {
  Operator op;
  op.signature.name = "test.plain";
  op.signature.tensors = {
      {.name = "x", .dims = {"M", "N"}, .dtype = "T"},
      {.name = "y", .dims = {"M", "N"}, .dtype = "T", .access = Access::kWrite}};
  op.signature.dtypes = {{{"T", DType::kF32}}};
  KernelDecl kernel;
  kernel.id = "plain.row";
  kernel.backend = "cpu";
  kernel.tier = Tier::kDeterministic;
  kernel.tunables = {{.name = "A", .values = {0, 1, 2, 3, 4, 5, 6, 7}},
                     {.name = "BITS", .values = {0, 1}, .changes_bits = true}};
  op.kernels = {kernel};
  return op;
}

inline Variant variant_of(std::int64_t a, std::int64_t bits = 0, Tier tier = Tier::kDeterministic) {
  Variant variant;
  variant.op = "test.plain";
  variant.kernel = "plain.row";
  variant.backend = "cpu";
  variant.tier = tier;
  variant.target = "x86-64";
  variant.dtypes = {{"T", DType::kF32}};
  variant.values = {{"A", a}, {"BITS", bits}};
  return variant;
}

// The world: what each variant (by its A) is really like, and what was asked of it.
struct World {
  std::map<std::int64_t, Planted> planted;
  double noise = 0.01;
  std::atomic<int> compiles{0}, checks{0}, measures{0};
  std::string source = "v1";  // part of every code key

  static std::int64_t a_of(const Variant& variant) {
    return std::get<std::int64_t>(variant.values.at("A"));
  }
  const Planted& of(const Variant& variant) { return planted[a_of(variant)]; }
  Digest key(const Variant& variant) const { return sha256(to_string(variant) + source); }

  TuneHooks hooks() {
    TuneHooks hooks;
    hooks.key = [this](const Variant& variant) -> Result<Digest> { return key(variant); };
    hooks.obtain = [this](const Variant& variant, bool* compiled) -> Result<BuiltCode> {
      ++compiles;
      const auto found = planted.find(a_of(variant));
      const Planted what = found == planted.end() ? Planted{} : found->second;
      if (!what.compiles)
        return fail(Code::kToolchain, "error: static assertion failed for " + to_string(variant),
                    "test");
      *compiled = true;
      BuiltCode code;
      code.artifact.variant = variant;
      code.artifact.code_key = key(variant);
      code.artifact.resources = what.resources;
      code.artifact.toolchain = {"test", "1", {}};
      code.code = "code";
      return code;
    };
    return hooks;
  }
};

class StandIn final : public Evaluator {
 public:
  StandIn(World& world, unsigned seed) : world_(world), random_(seed) {}
  Status open() override { return {}; }
  CheckAnswer check(const BuiltCode& code, std::uint64_t) override {
    ++world_.checks;
    const TrialOutcome outcome = world_.of(code.artifact.variant).check;
    return {outcome, outcome == TrialOutcome::kMeasured ? "" : "planted", 0.5, 0.01};
  }
  MeasureAnswer measure(std::span<const BuiltCode> codes, const MeasureSpec& spec) override {
    ++world_.measures;
    MeasureAnswer answer;
    answer.seconds = 0.01;
    for (const BuiltCode& code : codes) {
      const Planted& what = world_.of(code.artifact.variant);
      if (what.timing == TrialOutcome::kMeasured) continue;
      answer.outcome = what.timing;
      answer.reason = "planted while timing";
      return answer;
    }
    Comparison& out = answer.comparison;
    out.readings.resize(codes.size());
    for (std::size_t round = 0; round < spec.rounds; ++round) {
      const double drift =
          std::exp(random_normal() * world_.noise * 3);  // shared by the round: pairing removes it
      for (std::size_t i = 0; i < codes.size(); ++i) {
        out.readings[i].samples_us.push_back(sample(codes[i], drift));
      }
      out.incumbent_again.push_back(sample(codes[0], drift));
    }
    for (std::size_t i = 0; i < codes.size(); ++i) {
      Reading& reading = out.readings[i];
      reading.time_us = summarise(reading.samples_us);
      reading.rejected = world_.of(codes[i].artifact.variant).rejected;
      out.ratios.push_back(paired_ratio(i == 0 ? out.incumbent_again : reading.samples_us,
                                        out.readings[0].samples_us));
    }
    out.noise = relative_noise(out.incumbent_again, out.readings[0].samples_us);
    return answer;
  }
  Result<Attestation> prove(const BuiltCode& code) override {
    Attestation attestation;
    attestation.variant = to_string(code.artifact.variant);
    attestation.passed = true;
    return attestation;
  }

 private:
  double random_normal() { return std::normal_distribution<double>()(random_); }
  double sample(const BuiltCode& code, double drift) {
    return world_.of(code.artifact.variant).time_us * drift *
           std::exp(random_normal() * world_.noise);
  }
  World& world_;
  std::mt19937 random_;
};

inline TuneRequest request_for(const Operator& op, World& world, std::int64_t candidates = 8) {
  TuneRequest request;
  request.op = &op;
  request.shape = {
      "test", {{"M", std::int64_t{64}}, {"N", std::int64_t{128}}}, {}, {{"T", DType::kF32}}};
  request.device.model = "Test CPU";
  request.target = "x86-64";
  for (std::int64_t a = 0; a < candidates; ++a) request.space.push_back(variant_of(a));
  request.baseline = variant_of(0);
  request.hooks = world.hooks();
  request.compile_jobs = 2;
  request.cancelled = [] { return false; };
  return request;
}

}  // namespace opforge::test
