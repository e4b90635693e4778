#include "verify/values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opforge {
namespace {

double ordinary(Fill fill, Random& random) {
  switch (fill) {
    case Fill::kUniform01:
      return random.uniform();
    case Fill::kPositive:
      return 0.1 + 1.9 * random.uniform();
    case Fill::kNormal:
      break;
  }
  return random.normal();
}

double least_normal(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1.0p-1022;
    case DType::kF16:
      return 0x1.0p-14;
    case DType::kF8E4M3:
      return 0x1.0p-6;
    case DType::kF8E5M2:
      return 0x1.0p-14;
    default:
      return 0x1.0p-126;  // f32 and bf16
  }
}

// Magnitudes whose squares leave the dtype, while the fp32 sum of all of them stays finite.
double large_square(const FillRequest& request, Random& random) {
  const double in_fp32 =
      std::sqrt(1e38 / static_cast<double>(std::max<std::int64_t>(request.reduced_elements, 1)));
  const double top = std::min(largest_finite(request.dtype) * 0.9, in_fp32);
  const double size = top * (0.005 + 0.495 * random.uniform());
  return random.uniform() < 0.5 ? -size : size;
}

// Along a row: large values in the first half that the second half takes away again, a few ones,
// zeros elsewhere.
double cancelling(const FillRequest& request, std::int64_t index) {
  const std::int64_t width = std::max<std::int64_t>(request.row_elements, 1);
  const std::int64_t column = index % width, row = index / width, half = width / 2;
  const double big = 1024.0 * static_cast<double>(1 + row % 3);
  const std::int64_t place = half > 0 ? row % half : 0;
  if (column == place && half > 0) return big;
  if (column == half + place && half > 0) return -big;
  return (column - place) % 7 == 1 ? 1.0 : 0.0;
}

double hostile(const FillRequest& request, std::int64_t index, Random& random) {
  switch (request.data) {
    case Data::kLargeSquares:
      return large_square(request, random);
    case Data::kHugeSquares: {
      const double top = std::min(largest_finite(request.dtype) * 0.9, 1e30);
      const double size = top * (0.005 + 0.995 * random.uniform());
      return random.uniform() < 0.5 ? -size : size;
    }
    case Data::kCancellation:
      return cancelling(request, index);
    case Data::kLargeMean:
      return 100 + static_cast<double>(index % 16) / 1000;
    case Data::kTiny: {
      const double size = least_normal(request.dtype) * 4 * random.uniform() * random.uniform();
      return random.uniform() < 0.5 ? -size : size;
    }
    case Data::kConstant:
      return 3.0;
    case Data::kWideRange: {
      const double size = std::pow(10.0, 8 * random.uniform() - 4);
      return random.uniform() < 0.5 ? -size : size;
    }
    case Data::kZeros:
      return random.uniform() < 0.5 ? -0.0 : 0.0;
    case Data::kAllNaN:
      return std::numeric_limits<double>::quiet_NaN();
    default:
      return ordinary(request.fill, random);
  }
}

// Single special values go to a random place, and where there is room to the ends of the tensor's
// rows as well: tails and heads are where kernels treat elements apart.
void plant_specials(const FillRequest& request, Random& random, std::string& bytes) {
  const double inf = std::numeric_limits<double>::infinity();
  double value = 0, second = 0;
  switch (request.data) {
    case Data::kOneNaN:
      value = second = std::numeric_limits<double>::quiet_NaN();
      break;
    case Data::kOneInfinity:
      value = second = inf;
      break;
    case Data::kNegInfinity:
      value = second = -inf;
      break;
    case Data::kBothInfinities:
      value = inf, second = -inf;
      break;
    default:
      return;
  }
  if (request.elements == 0) return;
  const std::size_t size = itemsize(request.dtype);
  const auto put = [&](std::int64_t index, double what) {
    store_from_double(&bytes[static_cast<std::size_t>(index) * size], request.dtype, what);
  };
  const std::int64_t width = std::max<std::int64_t>(request.row_elements, 1);
  const std::int64_t rows = request.elements / width;
  const std::int64_t row = random.below(rows);
  put(row * width + random.below(width), value);
  if (request.data == Data::kBothInfinities) put(row * width + random.below(width), second);
  if (rows >= 3) {
    put(((row + 1) % rows) * width + width - 1, second);    // the last element of another row
    if (rows >= 4) put(((row + 2) % rows) * width, value);  // the first element of a third
  }
}

}  // namespace

std::string make_values(const FillRequest& request) {
  const std::size_t size = itemsize(request.dtype);
  std::string bytes(static_cast<std::size_t>(request.elements) * size, '\0');
  Random random(request.seed);
  const bool floating = is_floating(request.dtype);
  for (std::int64_t i = 0; i < request.elements; ++i) {
    void* to = &bytes[static_cast<std::size_t>(i) * size];
    if (floating) {
      store_from_double(to, request.dtype, hostile(request, i, random));
    } else {
      store_from_double(to, request.dtype,
                        static_cast<double>(random.below(request.dtype == DType::kBool ? 2 : 8)));
    }
  }
  if (floating) plant_specials(request, random, bytes);
  return bytes;
}

}  // namespace opforge
