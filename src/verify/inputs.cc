// Names, seeds and the generator of trials.
#include "verify/inputs.hpp"

#include <array>
#include <cctype>
#include <cstring>

namespace opforge {

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double Random::normal() {
  // The sum of four uniforms has variance 1/3. 32 bits each, so that every mantissa bit of fp32 is
  // met.
  double sum = -2;
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t bits = next();
    sum += static_cast<double>(bits & 0xffffffffu) * 0x1.0p-32 +
           static_cast<double>(bits >> 32) * 0x1.0p-32;
  }
  return sum * 1.7320508075688772;
}

std::int64_t Random::below(std::int64_t n) {
  return n <= 0 ? 0 : static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
}

std::string_view layout_name(Layout layout) {
  constexpr std::array<std::string_view, 13> kNames{
      "contiguous",     "offset",     "misaligned",    "padded-rows",   "padded-aligned",
      "every-second",   "transposed", "reversed-rows", "reversed-last", "broadcast-rows",
      "broadcast-last", "leading",    "leading-gapped"};
  return kNames[static_cast<std::size_t>(layout)];
}

std::string_view data_name(Data data) {
  constexpr std::array<std::string_view, 14> kNames{
      "ordinary", "nan",           "inf",          "-inf",         "both-inf",
      "all-nan",  "large-squares", "huge-squares", "cancellation", "large-mean",
      "tiny",     "constant",      "wide-range",   "zeros"};
  return kNames[static_cast<std::size_t>(data)];
}

std::string plain_symbol(std::string_view dim) {
  if (dim.starts_with("...")) dim.remove_prefix(3);
  for (std::size_t i = 0; i < dim.size(); ++i) {
    const auto c = static_cast<unsigned char>(dim[i]);
    if (c != '_' && std::isalpha(c) == 0 && (i == 0 || std::isdigit(c) == 0)) return {};
  }
  return std::string(dim);
}

int axis_of(const TensorArg& arg, std::string_view symbol) {
  for (std::size_t i = 0; i < arg.dims.size(); ++i) {
    if (plain_symbol(arg.dims[i]) == symbol) return static_cast<int>(i);
  }
  return -1;
}

std::vector<std::string> batch_symbols(const Signature& signature) {
  std::vector<std::string> out;
  for (const TensorArg& arg : signature.tensors) {
    for (const std::string& dim : arg.dims) {
      const std::string symbol = plain_symbol(dim);
      bool fits = !symbol.empty();
      for (const auto& known : out) fits = fits && known != symbol;
      for (const auto& reduced : signature.reduced_dims) fits = fits && reduced != symbol;
      for (const TensorArg& other : signature.tensors) {
        int plain = 0;
        for (const std::string& text : other.dims) {
          if (plain_symbol(text) == symbol) ++plain;
          // "2*M": cutting M would not cut this tensor in the same places.
          if (plain_symbol(text).empty() && text.find(symbol) != std::string::npos) fits = false;
        }
        if (plain > 1 || (other.access != Access::kRead && plain == 0)) fits = false;
      }
      if (fits) out.push_back(symbol);
    }
  }
  return out;
}

std::string batch_symbol(const Signature& signature) {
  const std::vector<std::string> all = batch_symbols(signature);
  return all.empty() ? std::string() : all.front();
}

std::uint64_t trial_seed(const Digest& code_digest, std::string_view trial_name,
                         std::uint64_t salt) {
  Fingerprint print;
  print.add("code", code_digest)
      .add("trial", trial_name)
      .add("salt", static_cast<std::int64_t>(salt));
  const Digest digest = print.finish();
  std::uint64_t seed;
  std::memcpy(&seed, digest.bytes.data(), sizeof seed);
  return seed;
}

}  // namespace opforge
