#include "runtime/dispatch.hpp"

#include <gtest/gtest.h>

#include "runtime/fake.hpp"
#include "runtime/metrics.hpp"

namespace opforge {
namespace {

using fake::ArtifactSpec;
using fake::kGpu0;
using fake::World;

CallOptions asking(Contract contract) {
  CallOptions options;
  options.contract = contract;
  return options;
}

CallOptions naming(const std::string& backend) {
  CallOptions options;
  options.backend = backend;
  return options;
}

bool starts(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Every set of offered tiers against every asked contract: the loosest that is strict enough
// serves; a stricter stand-in is a counted fallback; none is ContractUnsatisfied.
TEST(Dispatch, EveryAskedAgainstEveryOfferedSet) {
  for (const Tier asked : kAllTiers) {
    for (unsigned offered = 0; offered < 8; ++offered) {
      reset_counts();
      World world;
      world.section->signature.deterministic_kernel = {{"cpu", "k2"}};
      for (const Tier tier : kAllTiers) {
        if (offered >> static_cast<int>(tier) & 1) {
          world.add({.kernel = "k" + std::to_string(static_cast<int>(tier)), .tier = tier});
        }
      }
      int expected = -1;
      for (int tier = static_cast<int>(asked); tier <= 2; ++tier) {
        if (offered >> tier & 1) {
          expected = tier;
          break;
        }
      }
      const std::string got = world.serves(8, 64, asking(asked));
      const std::string label =
          std::string(tier_name(asked)) + " of set " + std::to_string(offered);
      if (expected >= 0) {
        EXPECT_EQ(got, "k" + std::to_string(expected)) << label;
        const auto fallbacks = fallback_counts();
        if (expected == static_cast<int>(asked)) {
          EXPECT_TRUE(fallbacks.empty()) << label;
        } else {
          ASSERT_EQ(fallbacks.size(), 1u) << label;
          EXPECT_EQ(fallbacks[0].op, "test.op");
          EXPECT_EQ(fallbacks[0].asked, asked);
          EXPECT_EQ(static_cast<int>(fallbacks[0].used), expected);
          EXPECT_EQ(fallbacks[0].count, 1u);
        }
      } else if (offered != 0) {
        EXPECT_TRUE(starts(got, "[contract_unsatisfied]")) << label << ": " << got;
      } else {
        EXPECT_TRUE(starts(got, "[compilation_sealed]")) << label << ": " << got;
      }
    }
  }
}

TEST(Dispatch, NamedBackendIsStrict) {
  World world;
  world.add({.kernel = "fast"});
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  EXPECT_EQ(world.serves(8, 64), "fast");
  EXPECT_EQ(world.serves(8, 64, naming("reference")), "ref");
  const std::string not_here = world.serves(8, 64, naming("gpu"));
  EXPECT_TRUE(starts(not_here, "[backend_not_eligible]")) << not_here;
  const std::string unknown = world.serves(8, 64, naming("gpuu"));
  EXPECT_TRUE(starts(unknown, "[not_found]")) << unknown;
  EXPECT_TRUE(has(unknown, "did you mean gpu?") && has(unknown, "cpu, gpu, reference")) << unknown;
}

TEST(Dispatch, NamedBackendThatRefusesSaysWhy) {
  World world;
  world.add({.kernel = "narrow", .guard = "N <= 32"});
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  const std::string got = world.serves(8, 64, naming("cpu"));
  EXPECT_TRUE(starts(got, "[backend_not_eligible]") && has(got, "guard says no: N <= 32")) << got;
  EXPECT_EQ(world.serves(8, 64), "ref");  // not named: the ladder goes on
}

TEST(Dispatch, ForcedBackendIsBestEffortAndSettableAtAnyTime) {
  World world;
  world.add({.kernel = "fast"});
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  EXPECT_EQ(world.serves(8, 64), "fast");
  ASSERT_TRUE(world.runtime->set_backend("reference"));
  EXPECT_EQ(world.serves(8, 64), "ref");  // the plan made before is not used
  reset_counts();
  ASSERT_TRUE(world.runtime->set_backend("gpu"));
  EXPECT_EQ(world.serves(8, 64), "fast");  // cannot serve host tensors: the ladder goes on
  const auto events = event_counts();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, "forced_unserved");
  const auto unknown = world.runtime->set_backend("cpuu");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_TRUE(has(unknown.error().message, "cpu, gpu, reference")) << unknown.error().message;
  ASSERT_TRUE(world.runtime->set_backend(""));
  EXPECT_EQ(world.serves(8, 64), "fast");
}

TEST(Dispatch, MeasuredExactThenNearestThenDefault) {
  World world;
  Artifact a = world.add({.kernel = "a", .values = {{"R", std::int64_t{1}}}});
  Artifact b = world.add({.kernel = "b", .values = {{"R", std::int64_t{2}}}});
  world.measure(a, 16, 128, 5.0);
  world.measure(b, 16, 128, 4.0);
  world.measure(a, 1, 16, 1.0);
  const auto grade = [&](std::int64_t m, std::int64_t n) {
    return std::get<0>(*world.prepare(m, n))->grade();
  };
  EXPECT_EQ(world.serves(16, 128), "b");  // the faster of two for this very shape
  EXPECT_EQ(grade(16, 128), Grade::kExact);
  EXPECT_EQ(world.serves(8, 128), "b");  // one doubling away from (16, 128), six from (1, 16)
  EXPECT_EQ(grade(8, 128), Grade::kNearest);
  EXPECT_EQ(world.serves(1, 32), "a");
  EXPECT_EQ(grade(1, 32), Grade::kNearest);
  World untuned;
  untuned.add({.kernel = "a"});
  EXPECT_EQ(std::get<0>(*untuned.prepare(8, 64))->grade(), Grade::kDefault);
}

TEST(Dispatch, NearestSkipsVariantsWhoseGuardsFail) {
  World world;
  Artifact a = world.add({.kernel = "a", .guard = "N <= 100"});
  Artifact b = world.add({.kernel = "b"});
  world.measure(a, 8, 96, 1.0);
  world.measure(b, 1, 4, 9.0);
  EXPECT_EQ(world.serves(8, 128), "b");  // far away, but its guards hold
}

// Tuning entries of another layout, dtype, attribute, model or target never apply.
TEST(Dispatch, TableEntriesOfAnotherCallAreMisses) {
  const auto with = [](const std::function<void(TableEntry&)>& change) {
    World world;
    Artifact slow = world.add({.kernel = "default", .values = {{"R", std::int64_t{1}}}});
    Artifact tuned = world.add({.kernel = "tuned", .tier = Tier::kHighPrecision});
    change(world.measure(tuned, 8, 64, 1.0));
    return world.serves(8, 64);
  };
  EXPECT_EQ(with([](TableEntry&) {}), "tuned");
  EXPECT_EQ(with([](TableEntry& e) { e.layout = "r16,c16"; }), "default");
  EXPECT_EQ(with([](TableEntry& e) { e.dtypes = {{"T", DType::kBF16}}; }), "default");
  EXPECT_EQ(with([](TableEntry& e) { e.attributes["eps"] = 1e-5; }), "default");
  EXPECT_EQ(with([](TableEntry& e) { e.device_model = "Another CPU"; }), "default");
  EXPECT_EQ(with([](TableEntry& e) { e.target = "x86-64-v3"; }), "default");
}

TEST(Dispatch, PriorityIsBackendThenLoosestTierThenDefaults) {
  World world;
  world.section->signature.backend_priority = {"second", "cpu"};
  world.add({.kernel = "cpu.fast"});
  world.add({.kernel = "second.hp", .backend = "second", .tier = Tier::kHighPrecision});
  EXPECT_EQ(world.serves(8, 64), "second.hp");
  world.add({.kernel = "second.fast", .backend = "second"});
  world.open();
  EXPECT_EQ(world.serves(8, 64), "second.fast");
}

TEST(Dispatch, DefaultVariantFollowsTheDims) {
  World world;
  for (const std::int64_t rows : {1, 4, 16}) {
    Artifact& made = world.add({.kernel = "k", .values = {{"ROWS", rows}}});
    made.symbols["run"] = "rows" + std::to_string(rows);
    made.defaults = {{"ROWS", "M / 8", {1, 4, 16}, false, false}};
  }
  const auto rows = [&](std::int64_t m) {
    return std::get<std::int64_t>(
        std::get<0>(*world.prepare(m, 16))->artifact().variant.values.at("ROWS"));
  };
  EXPECT_EQ(rows(8), 1);
  EXPECT_EQ(rows(32), 4);
  EXPECT_EQ(rows(200), 16);  // 25, clamped to the nearest listed
}

TEST(Dispatch, LargestSpecialisationWhoseGuardsHold) {
  World world;
  for (const std::int64_t vec : {1, 4, 8}) {
    Artifact& made = world.add({.kernel = "k", .values = {{"VEC", vec}}, .guard = "N % VEC == 0"});
    made.defaults = {{"VEC", "", {1, 4, 8}, true, false}};
  }
  const auto vec = [&](std::int64_t n) {
    return std::get<std::int64_t>(
        std::get<0>(*world.prepare(2, n))->artifact().variant.values.at("VEC"));
  };
  EXPECT_EQ(vec(64), 8);
  EXPECT_EQ(vec(12), 4);
  EXPECT_EQ(vec(7), 1);
}

// Defaults that depend on a specialisation are those of the variant's own, in every tier.
TEST(Dispatch, DefaultsSeeTheVariantsSpecialisation) {
  World world;
  world.section->signature.deterministic_kernel = {{"cpu", "k"}};
  for (const std::int64_t layout : {0, 1}) {
    for (const std::int64_t stream : {0, 1}) {
      Artifact& made = world.add({.kernel = "k",
                                  .tier = Tier::kDeterministic,
                                  .values = {{"LAYOUT", layout}, {"STREAM", stream}},
                                  .guard = "LAYOUT == 0 || N % 8 == 0"});
      made.defaults = {{"LAYOUT", "1", {0, 1}, true, false},
                       {"STREAM", "LAYOUT == 1 && M * N > 100 ? 1 : 0", {0, 1}, false, false}};
    }
  }
  const auto values = [&](std::int64_t m, std::int64_t n) {
    const ValueMap chosen =
        std::get<0>(*world.prepare(m, n, asking(Tier::kDeterministic)))->artifact().variant.values;
    return std::pair(std::get<std::int64_t>(chosen.at("LAYOUT")),
                     std::get<std::int64_t>(chosen.at("STREAM")));
  };
  EXPECT_EQ(values(64, 64), std::pair(std::int64_t{1}, std::int64_t{1}));
  EXPECT_EQ(values(2, 8), std::pair(std::int64_t{1}, std::int64_t{0}));
  EXPECT_EQ(values(64, 63), std::pair(std::int64_t{0}, std::int64_t{0}));
}

TEST(Dispatch, HigherTargetFirst) {
  World world;
  world.add({.kernel = "v2", .target = "x86-64-v2"});
  world.add({.kernel = "v3", .target = "x86-64-v3"});
  world.add({.kernel = "v4", .target = "x86-64-v4"});  // the device is of level 3
  EXPECT_EQ(world.serves(8, 64), "v3");
}

TEST(Dispatch, ReferenceServesHostTensorsLast) {
  reset_counts();
  World world;
  world.add({.kernel = "bf16", .dtype = DType::kBF16});
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision}, false);
  EXPECT_EQ(world.serves(8, 64), "ref");
  EXPECT_EQ(std::get<0>(*world.prepare(8, 64))->grade(), Grade::kReference);
  EXPECT_EQ(world.serves(8, 64, asking(Tier::kHighPrecision)), "ref");  // always accepted as proved
  const std::string strict = world.serves(8, 64, asking(Tier::kDeterministic));
  EXPECT_TRUE(starts(strict, "[contract_unsatisfied]")) << strict;
}

TEST(Dispatch, DeviceTensorsAreUnavailableWithoutAKernel) {
  World world;
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  const std::string got = world.serves(8, 64, {}, kGpu0);
  EXPECT_TRUE(starts(got, "[unavailable]") && has(got, "development mode only")) << got;
}

TEST(Dispatch, UnprovedCodeServesFastOnlyAndIsCounted) {
  reset_counts();
  World world;
  world.add({.kernel = "k", .tier = Tier::kHighPrecision}, false);
  EXPECT_EQ(world.serves(8, 64, asking(Tier::kFast)), "k");
  bool counted = false;
  for (const auto& event : event_counts()) counted = counted || event.name == "unproved";
  EXPECT_TRUE(counted);
  const std::string strict = world.serves(8, 64, asking(Tier::kHighPrecision));
  EXPECT_TRUE(starts(strict, "[contract_unsatisfied]") && has(strict, "opforge verify --pack"))
      << strict;
  CallOptions off = asking(Tier::kHighPrecision);
  off.proof = ProofPolicy::kOff;
  EXPECT_EQ(world.serves(8, 64, off), "k");
  CallOptions required = asking(Tier::kFast);
  required.proof = ProofPolicy::kRequired;
  EXPECT_TRUE(starts(world.serves(8, 64, required), "[contract_unsatisfied]"));
}

TEST(Dispatch, AnAttestationProvesOnlyWhatItIsAbout) {
  const auto with = [](const std::function<void(Attestation&)>& change) {
    World world;
    Artifact made = world.add({.kernel = "k", .tier = Tier::kHighPrecision}, false);
    Attestation attested = fake::proof(made, fake::kCpuModel, Tier::kHighPrecision);
    change(attested);
    world.section->attestations.push_back(attested);
    return world.serves(8, 64, asking(Tier::kHighPrecision));
  };
  EXPECT_EQ(with([](Attestation&) {}), "k");
  for (const std::function<void(Attestation&)>& change :
       std::vector<std::function<void(Attestation&)>>{
           [](Attestation& a) { a.passed = false; }, [](Attestation& a) { a.tier = Tier::kFast; },
           [](Attestation& a) { a.device_model = "Another CPU"; },
           [](Attestation& a) { a.code_digest = fake::digest("other"); },
           [](Attestation& a) { a.proof_key = fake::digest("older suite"); }}) {
    EXPECT_TRUE(starts(with(change), "[contract_unsatisfied]"));
  }
}

TEST(Dispatch, DeterministicStaysInItsBitClass) {
  World world;
  world.section->signature.deterministic_kernel = {{"cpu", "cpu.det"}, {"other", "other.det"}};
  world.section->signature.backend_priority = {"cpu", "other"};
  for (const std::int64_t lanes : {8, 16}) {
    for (const std::int64_t rows : {1, 4}) {
      Artifact& made = world.add({.kernel = "cpu.det",
                                  .tier = Tier::kDeterministic,
                                  .values = {{"LANES", lanes}, {"ROWS", rows}}});
      made.defaults = {{"LANES", "N >= 64 ? 16 : 8", {8, 16}, false, true},
                       {"ROWS", "1", {1, 4}, false, false}};
    }
  }
  Artifact other =
      world.add({.kernel = "other.det", .backend = "other", .tier = Tier::kDeterministic});
  const auto values = [&](std::int64_t m, std::int64_t n) {
    const auto prepared = world.prepare(m, n, asking(Tier::kDeterministic));
    return std::get<0>(*prepared)->artifact().variant.values;
  };
  EXPECT_EQ(std::get<std::int64_t>(values(8, 64).at("LANES")), 16);
  EXPECT_EQ(std::get<std::int64_t>(values(8, 32).at("LANES")), 8);
  EXPECT_EQ(std::get<std::int64_t>(values(1, 64).at("LANES")), 16);
  // A measurement may choose among what does not change bits, and nothing else.
  for (const Artifact& made : world.section->artifacts) {
    const auto lanes = made.variant.values.find("LANES");
    const bool wrong =
        lanes == made.variant.values.end() || std::get<std::int64_t>(lanes->second) == 8;
    const bool four = !wrong && std::get<std::int64_t>(made.variant.values.at("ROWS")) == 4;
    if (wrong || four)
      world.measure(made, 8, 64, wrong ? 1.0 : 2.0).contract = Tier::kDeterministic;
  }
  world.open();
  EXPECT_EQ(std::get<std::int64_t>(values(8, 64).at("LANES")), 16);
  EXPECT_EQ(std::get<std::int64_t>(values(8, 64).at("ROWS")), 4);
  // No other backend, even by name.
  CallOptions by_name = asking(Tier::kDeterministic);
  by_name.backend = "other";
  const std::string refused = world.serves(8, 64, by_name);
  EXPECT_TRUE(starts(refused, "[backend_not_eligible]") && has(refused, "outside the bit class"))
      << refused;
}

// The class does not move to the next backend because a pack lacks the first one's variant.
TEST(Dispatch, DeterministicMissIsAMissNotAnotherKernel) {
  World world;
  world.section->signature.deterministic_kernel = {{"cpu", "cpu.det"}, {"other", "other.det"}};
  world.section->signature.backend_priority = {"cpu", "other"};
  Artifact& made = world.add(
      {.kernel = "cpu.det", .tier = Tier::kDeterministic, .values = {{"LANES", std::int64_t{8}}}});
  made.defaults = {{"LANES", "N >= 64 ? 16 : 8", {8, 16}, false, true}};
  world.add({.kernel = "other.det", .backend = "other", .tier = Tier::kDeterministic});
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  const std::string got = world.serves(8, 64, asking(Tier::kDeterministic));
  EXPECT_TRUE(starts(got, "[compilation_sealed]") && has(got, "fixes 16")) << got;
}

TEST(Dispatch, PreconditionsGiveUnavailableNotTheReference) {
  World world;
  Artifact& made = world.add({.kernel = "k"});
  made.preconditions = {{PreconditionKind::kLockstepRanks, 0, {}}};
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  CallOptions options;
  options.facts.world_size = 8;
  const std::string got = world.serves(8, 64, options);
  EXPECT_TRUE(starts(got, "[unavailable]") && has(got, "lockstep")) << got;
  options.facts.lockstep = true;
  EXPECT_EQ(world.serves(8, 64, options), "k");
}

TEST(Dispatch, UsersOwnPreconditionSeesEveryArgument) {
  World world;
  world.add({.kernel = "k"});
  CallOptions options;
  std::size_t seen = 0;
  options.facts.user = [&](std::span<const TensorView> tensors) {
    seen = tensors.size();
    return tensors[0].dims[0] > 4 ? Support::yes() : Support::no("too few rows for me");
  };
  EXPECT_EQ(world.serves(8, 64, options), "k");
  EXPECT_EQ(seen, 2u);
  EXPECT_TRUE(has(world.serves(2, 64, options), "[unavailable] too few rows for me"));
}

TEST(Dispatch, WrongArchitectureListsWhatThereIs) {
  World world;
  world.add({.kernel = "a", .backend = "gpu", .target = "sm_80"});
  world.add({.kernel = "b", .backend = "gpu", .target = "sm_100a"});
  const std::string got = world.serves(8, 64, {}, kGpu0);
  EXPECT_TRUE(starts(got, "[incompatible]")) << got;
  EXPECT_TRUE(has(got, "sm_80") && has(got, "sm_100a") && has(got, "90")) << got;
}

TEST(Dispatch, PtxOnlyWhereAllowed) {
  World world;
  world.add({.kernel = "ptx", .backend = "gpu", .target = "compute_80"});
  EXPECT_TRUE(starts(world.serves(8, 64, {}, kGpu0), "[incompatible]"));
  CallOptions options;
  options.allow_ptx = true;
  EXPECT_EQ(world.serves(8, 64, options, kGpu0), "ptx");
}

TEST(Dispatch, TooOldDriverIsNamed) {
  World world;
  world.add({.kernel = "k", .backend = "gpu", .target = "sm_90a"}).min_driver = 13010;
  const std::string got = world.serves(8, 64, {}, kGpu0);
  EXPECT_TRUE(has(got, "13010") && has(got, "13000")) << got;
}

TEST(Dispatch, DeviceThatIsNotHereIsUnavailable) {
  World world;
  world.add({.kernel = "k", .backend = "gpu", .target = "sm_90a"});
  EXPECT_TRUE(
      has(world.serves(8, 64, {}, {DeviceKind::kCuda, 7}), "[unavailable] cuda:7 is not here"));
  world.gpu.api.infos.clear();
  world.open();
  EXPECT_TRUE(has(world.serves(8, 64, {}, kGpu0), "tried libfake.so"));
}

TEST(Dispatch, MissNamesTheCallAndTheNearestEntries) {
  World world;
  world.add({.kernel = "k.bf16", .dtype = DType::kBF16});
  world.add({.kernel = "k.flag", .flag = 1});
  world.add({.kernel = "k.narrow", .guard = "N <= 32"});
  const std::string got = world.serves(8, 64);
  EXPECT_TRUE(starts(got, "[compilation_sealed]")) << got;
  EXPECT_TRUE(has(got, "f32[8,64]") && has(got, "test.ofpack")) << got;
  const auto narrow = got.find("k.narrow"), flag = got.find("k.flag"), bf16 = got.find("k.bf16");
  EXPECT_TRUE(narrow < flag && flag < bf16) << got;  // the nearest first
}

TEST(Dispatch, UnknownOperatorOffersTheNearest) {
  World world;
  world.open();
  const auto got = world.runtime->prepare("test.opp", world.tensors(8, 64), {}, {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kNotFound);
  EXPECT_TRUE(has(got.error().message, "test.op"));
  const auto short_name = world.runtime->prepare("op", world.tensors(8, 64), {}, {});
  EXPECT_TRUE(has(short_name.error().message, "nearest: test.op"));
}

TEST(Dispatch, AValueThatDoesNotFitIsAGuardOfItsOwn) {
  World world;
  Artifact& narrow = world.add({.kernel = "narrow"});
  narrow.launch.steps[0].bindings[2].type = ParamType::kI8;
  world.add({.kernel = "wide", .tier = Tier::kHighPrecision});
  EXPECT_EQ(world.serves(8, 64), "narrow");
  EXPECT_EQ(world.serves(8, 200), "wide");
  const auto explained = world.runtime->explain("test.op", world.tensors(8, 200), {}, {});
  bool said = false;
  for (const Candidate& candidate : explained.candidates) {
    said = said || (candidate.kernel == "narrow" && has(candidate.reason, "parameter 'n'") &&
                    has(candidate.reason, "200"));
  }
  EXPECT_TRUE(said);
}

TEST(Dispatch, ExplainGivesEveryCandidateAReason) {
  World world;
  Artifact a = world.add({.kernel = "a"});
  world.add({.kernel = "b", .tier = Tier::kHighPrecision});
  world.add({.kernel = "c", .dtype = DType::kBF16});
  world.add({.kernel = "d", .target = "x86-64-v4"});
  world.add({.kernel = "e", .guard = "M > 100"});
  world.measure(a, 8, 64, 3.25);
  world.open();
  const Explanation explained = world.runtime->explain("test.op", world.tensors(8, 64), {}, {});
  ASSERT_EQ(explained.candidates.size(), 5u);
  for (const Candidate& candidate : explained.candidates) {
    EXPECT_FALSE(candidate.reason.empty()) << candidate.variant;
    EXPECT_EQ(candidate.taken, candidate.kernel == "a");
    EXPECT_EQ(candidate.source, "test.ofpack");
  }
  EXPECT_EQ(explained.grade, "exact");
  EXPECT_EQ(explained.candidates[0].median_us, 3.25);
  EXPECT_TRUE(has(explained.candidates[4].reason, "guard says no"));
}

TEST(Dispatch, SourcesOfOneOperatorAreMergedAndEarlierOnesWinTies) {
  World world;
  world.add({.kernel = "same"});
  auto second = std::make_shared<fake::Source>("second.ofpack");
  auto section = std::make_shared<OperatorSection>(*world.section);
  section->artifacts.push_back(fake::artifact({.kernel = "bf16", .dtype = DType::kBF16}));
  second->sections["test.op"] = section;
  Runtime& runtime = world.open();
  runtime.add_source(second);
  const auto f32 = runtime.explain("test.op", world.tensors(8, 64), {}, {});
  for (const Candidate& candidate : f32.candidates) {
    EXPECT_TRUE(!candidate.taken || candidate.source == "test.ofpack");
  }
  const auto bf16 = runtime.prepare("test.op", world.tensors(8, 64, {}, DType::kBF16), {}, {});
  ASSERT_TRUE(bf16);
  EXPECT_EQ(std::get<0>(*bf16)->artifact().variant.kernel, "bf16");
}

TEST(Dispatch, ASectionThatDeclaresTheOperatorDifferentlyIsRefusedByName) {
  World world;
  world.add({.kernel = "ours", .guard = "N == 1"});
  auto foreign = std::make_shared<fake::Source>("foreign.ofpack");
  auto section = std::make_shared<OperatorSection>(*world.section);
  section->signature.tensors[0].name = "input";
  section->artifacts = {fake::artifact({.kernel = "theirs"})};
  foreign->sections["test.op"] = section;
  world.open().add_source(foreign);
  const std::string got = world.serves(8, 64);
  EXPECT_TRUE(has(got, "foreign.ofpack declares test.op differently")) << got;
}

TEST(Dispatch, DamagedCodeIsAnErrorNotAnotherChoice) {
  World world;
  world.add({.kernel = "k"});
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  world.source->corrupt = true;
  const std::string got = world.serves(8, 64);
  EXPECT_TRUE(starts(got, "[corrupt]") && has(got, "damaged")) << got;
}

TEST(Dispatch, TheOrderOfCallsDoesNotChangeTheChoicesDigest) {
  World first, second;
  for (World* world : {&first, &second}) {
    world->add({.kernel = "a"});
    world->add({.kernel = "b", .tier = Tier::kHighPrecision});
  }
  first.serves(8, 64);
  first.serves(4, 32);
  second.serves(4, 32);
  EXPECT_NE(first.runtime->choices_digest(), second.runtime->choices_digest());
  second.serves(8, 64);
  second.serves(8, 64);
  EXPECT_EQ(first.runtime->choices_digest(), second.runtime->choices_digest());
  second.serves(8, 64, asking(Tier::kHighPrecision));
  EXPECT_NE(first.runtime->choices_digest(), second.runtime->choices_digest());
}

}  // namespace
}  // namespace opforge
