// The expression parser and evaluator: no crash, no overflow, and what is parsed keeps its text.
#include "fuzz/fuzz.hpp"
#include "operator/expression.hpp"
#include "operator/launch.hpp"

std::vector<std::string> fuzz_seeds() {
  return {"ceil_div(M, ROWS)",
          "min(1024, next_pow2(N / 8))",
          "x.stride0 * x.itemsize % 16 == 0",
          "T == 'bf16' ? 8 : 4",
          "-9223372036854775807 - 1",
          "9223372036854775807 * 2",
          "1 / 0",
          "rsqrt(eps) + float(M) / 3.5e-2",
          "!(M > 0) || log2(N) <= 3",
          "workspace + 4 * M",
          "abs(-M) - round_up(N, 4)",
          "(((((((M)))))))",
          "int(1e300)"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace opforge;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ValueMap values = {
      {"M", std::int64_t{4096}},       {"N", std::int64_t{-1}}, {"ROWS", std::int64_t{4}},
      {"T", std::string("bf16")},      {"eps", 1e-6},           {"x.stride0", INT64_MAX},
      {"x.itemsize", std::int64_t{2}}, {"Z", std::int64_t{0}}};
  (void)parse_pointer(text);
  auto parsed = Expression::parse(text);
  if (!parsed) {
    FUZZ_CHECK(!parsed.error().message.empty());
    return 0;
  }
  (void)parsed->evaluate(lookup_in(values));
  (void)parsed->evaluate_int(lookup_in(values));
  (void)parsed->evaluate_bool(lookup_in(values));
  FUZZ_CHECK(Expression::parse(parsed->text()));
  return 0;
}
