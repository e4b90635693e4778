// JSON of manifests and launch records: what is accepted can be written and read again.
#include "artifact/samples.hpp"
#include "fuzz/fuzz.hpp"

using namespace opforge;

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = {*manifest_to_json(samples::artifact("group.op", 0, "code")),
                                    *manifest_to_json(samples::artifact("group.op", 1, "code"))};
  for (const auto& fixture : fixtures::all_launch_fixtures())
    seeds.push_back(*launch_to_json(fixture.record));
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto artifact = manifest_from_json(text)) {
    const auto again = manifest_to_json(*artifact);
    FUZZ_CHECK(again && manifest_from_json(*again));
  }
  if (auto record = launch_from_json(text)) {
    const auto json = launch_to_json(*record);
    FUZZ_CHECK(json && *launch_to_json(*launch_from_json(*json)) == *json);
  }
  return 0;
}
