// Attestation files and lists of trusted keys.
#include "artifact/samples.hpp"
#include "fuzz/fuzz.hpp"

using namespace opforge;

std::vector<std::string> fuzz_seeds() {
  samples::Folder folder;
  const auto key = SigningKey::generate();
  const auto a = samples::attestation(samples::artifact("group.op", 0, "code"), key);
  auto b = a;
  b.worst_error_over_bound = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Attestation> both{a, b};
  if (!write_attestations(folder / "f", both)) return {};
  return {*read_file(folder / "f"), "[]", "[{\"op\": 1}]"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto parsed = attestations_from_json({reinterpret_cast<const char*>(data), size});
  if (!parsed) {
    FUZZ_CHECK(!parsed.error().message.empty());
    return 0;
  }
  for (const auto& a : *parsed) (void)attestation_signature_ok(a);
  return 0;
}
