// Gradients of the norms in CUDA C++, in three steps (rows, partials, sums). V::LAYER: layer
// normalisation, else RMS.
//
// z = (x - mean) r is what was multiplied with the weight, and dx = r (g - mean g - z mean(g z)),
// g = dy (w + shift); RMS has no means of x and g. Everything is in double: squares neither
// overflow nor cancel, and the double units keep up with the memory of the GPUs that this is for.
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

constexpr int kBackwardThreads = 256;

struct RowNumbers {
  double mean, r;
};

OPFORGE_DEVICE double block_sum(double value, double* scratch) {
  using Threads = Block<kBackwardThreads>;
  return Threads::reduce(
      value, [](double a, double b) { return a + b; },
      *reinterpret_cast<typename Threads::template Scratch<double>*>(scratch));
}

// A block a row.
template <class V>
OPFORGE_DEVICE void norm_backward_rows(const void* dy_data, const void* x_data, const void* w_data,
                                       const void* added_data, void* dx_data, void* numbers,
                                       long long columns, float eps, float shift,
                                       long long w_stride, long long dy_row, long long dy_column,
                                       long long x_row, long long x_column, long long added_row,
                                       long long added_column, long long dx_row,
                                       long long dx_column) {
  using T = typename V::T;
  using W = typename V::W;
  __shared__ double scratch[4][kBackwardThreads / 32];
  const long long row = blockIdx.x;
  const T* dy = static_cast<const T*>(dy_data) + row * dy_row;
  const T* x = static_cast<const T*>(x_data) + row * x_row;
  const W* w = static_cast<const W*>(w_data);
  const double size = static_cast<double>(columns);
  const auto x_at = [&](long long i) {
    return static_cast<double>(load_float<Cache::kCached>(x + i * x_column));
  };
  const auto g_at = [&](long long i) {
    const float weight = load_float<Cache::kKept>(w + i * w_stride) + shift;
    return static_cast<double>(load_float<Cache::kCached>(dy + i * dy_column)) *
           static_cast<double>(weight);
  };

  double mean = 0;
  if constexpr (V::LAYER == 1) {
    for (long long i = threadIdx.x; i < columns; i += kBackwardThreads) mean += x_at(i);
    mean = block_sum(mean, scratch[0]) / size;
  }
  double squares = 0;
  for (long long i = threadIdx.x; i < columns; i += kBackwardThreads) {
    const double d = x_at(i) - mean;
    squares += d * d;
  }
  squares = block_sum(squares, scratch[1]);
  const double r = 1.0 / sqrt(squares / size + static_cast<double>(eps));
  double g_mean = 0, product_mean = 0;
  for (long long i = threadIdx.x; i < columns; i += kBackwardThreads) {
    const double g = g_at(i);
    g_mean += g;
    product_mean += g * ((x_at(i) - mean) * r);
  }
  g_mean = V::LAYER == 1 ? block_sum(g_mean, scratch[2]) / size : 0.0;
  product_mean = block_sum(product_mean, scratch[3]) / size;
  for (long long i = threadIdx.x; i < columns; i += kBackwardThreads) {
    double v = r * (g_at(i) - g_mean - (x_at(i) - mean) * r * product_mean);
    if (added_data != nullptr)
      v += static_cast<double>(load_float<Cache::kCached>(static_cast<const T*>(added_data) +
                                                          row * added_row + i * added_column));
    store_float<Cache::kCached>(static_cast<T*>(dx_data) + row * dx_row + i * dx_column,
                                static_cast<float>(v));
  }
  if (threadIdx.x == 0) static_cast<RowNumbers*>(numbers)[row] = {mean, r};
}

// A block has 32 columns of a slab of rows, a thread every eighth row of a column;
// partials[slab][weight gradients, bias gradients][column].
template <class V>
OPFORGE_DEVICE void norm_backward_partials(const void* dy_data, const void* x_data,
                                           const void* numbers, void* partials, long long rows,
                                           long long columns, long long slab_rows, long long dy_row,
                                           long long dy_column, long long x_row,
                                           long long x_column) {
  using T = typename V::T;
  __shared__ double scratch[2][8][32];
  const long long blocks = ceil_div(columns, 32ll), slab = blockIdx.x / blocks;
  const int lane = static_cast<int>(threadIdx.x) % 32, part = static_cast<int>(threadIdx.x) / 32;
  const long long column = blockIdx.x % blocks * 32 + lane;
  const long long end = smaller((slab + 1) * slab_rows, rows);
  double weight = 0, bias = 0;
  for (long long row = slab * slab_rows + part; row < end && column < columns; row += 8) {
    const RowNumbers n = static_cast<const RowNumbers*>(numbers)[row];
    const double d = static_cast<double>(load_float<Cache::kCached>(
        static_cast<const T*>(dy_data) + row * dy_row + column * dy_column));
    const double v = static_cast<double>(load_float<Cache::kCached>(
        static_cast<const T*>(x_data) + row * x_row + column * x_column));
    weight += d * ((v - n.mean) * n.r);
    bias += d;
  }
  scratch[0][part][lane] = weight;
  scratch[1][part][lane] = bias;
  __syncthreads();
  if (part > V::LAYER || column >= columns) return;  // warp 0: weights, warp 1: biases
  double sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += scratch[part][i][lane];
  static_cast<double*>(partials)[(slab * (1 + V::LAYER) + part) * columns + column] = sum;
}

// A thread a column.
template <class V>
OPFORGE_DEVICE void norm_backward_sums(const void* partials, void* dw, void* db, long long columns,
                                       long long slabs, long long dw_stride, long long db_stride) {
  using W = typename V::W;
  const double* parts = static_cast<const double*>(partials);
  const long long i =
      static_cast<long long>(blockIdx.x) * kBackwardThreads + static_cast<long long>(threadIdx.x);
  if (i >= columns) return;
  double weight = 0, bias = 0;
  for (long long slab = 0; slab < slabs; ++slab) {
    weight += parts[slab * (1 + V::LAYER) * columns + i];
    if constexpr (V::LAYER == 1) bias += parts[(slab * 2 + 1) * columns + i];
  }
  store_float<Cache::kCached>(static_cast<W*>(dw) + i * dw_stride, static_cast<float>(weight));
  if constexpr (V::LAYER == 1)
    store_float<Cache::kCached>(static_cast<W*>(db) + i * db_stride, static_cast<float>(bias));
}

}  // namespace opforge
