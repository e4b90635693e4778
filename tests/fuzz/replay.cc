// Runs a fuzz target without libFuzzer: every seed, then random mutations of seeds. Deterministic.
//   fuzz_x [mutations]              default 3000
//   fuzz_x --write-seeds FOLDER     a corpus for the libFuzzer program
//   fuzz_x --file FILE...           one input each, to look at a finding
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz/fuzz.hpp"

namespace {

int run(const std::string& input) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string mutated(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  std::string out = seeds[random() % seeds.size()];
  const auto at = [&] { return out.empty() ? 0 : random() % out.size(); };
  for (std::uint64_t count = 1 + random() % 4; count > 0; --count) switch (random() % 7) {
      case 0:
        if (!out.empty()) out[at()] ^= static_cast<char>(1 << (random() % 8));
        break;
      case 1:
        if (!out.empty()) out[at()] = static_cast<char>(random());
        break;
      case 2:
        out.resize(at());
        break;
      case 3:
        out.insert(at(), std::string(random() % 9, static_cast<char>(random())));
        break;
      case 4:
        out.erase(at(), random() % 16);
        break;
      case 5: {  // a piece of another seed
        const auto& other = seeds[random() % seeds.size()];
        if (!other.empty()) out.insert(at(), other.substr(random() % other.size(), random() % 64));
        break;
      }
      default: {  // an extreme number
        const std::uint64_t values[] = {0, ~0ull, 0x7fffffff, 0x80000000, 1ull << 40};
        char bytes[8];
        std::memcpy(bytes, &values[random() % 5], 8);
        const auto offset = at();
        out.replace(offset, std::min<std::size_t>(8, out.size() - offset), bytes, 8);
      }
    }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto seeds = fuzz_seeds();
  if (argc == 3 && std::strcmp(argv[1], "--write-seeds") == 0) {
    for (std::size_t i = 0; i < seeds.size(); ++i)
      std::ofstream(std::string(argv[2]) + "/seed" + std::to_string(i), std::ios::binary)
          << seeds[i];
    return 0;
  }
  if (argc > 2 && std::strcmp(argv[1], "--file") == 0) {
    for (int i = 2; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      run({std::istreambuf_iterator<char>(file), {}});
    }
    return 0;
  }
  const long mutations = argc > 1 ? std::atol(argv[1]) : 3000;
  std::mt19937_64 random(20240229);
  for (const auto& seed : seeds) run(seed);
  for (long i = 0; i < mutations; ++i) run(mutated(seeds, random));
  std::printf("%zu seeds, %ld mutations: no crash\n", seeds.size(), mutations);
  return 0;
}
