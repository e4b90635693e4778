// A tile of 64 x 64 results a work item. For each 128 of K the tile's parts of x and w are
// converted to f32 into two packed buffers (32 KiB each: they stay in the L1 and L2), multiplied in
// f32, and the products added to the tile in double: rounding does not grow with K, and the order
// is fixed.
//
// The inner loop has 4 rows by two vectors of columns in registers: 8 accumulators hide the latency
// of a multiply-add, and 4 broadcasts and 2 loads feed 8 of them.
#include "opforge_activations.hpp"

namespace opforge {
namespace cpu {

inline constexpr int64_t kTile = 64, kDepth = 128, kRows = 4;
static_assert(kTile % kPair == 0, "columns come in pairs of vectors");

OPFORGE_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

struct Tile {
  alignas(64) float x[kTile][kDepth];
  alignas(64) float w[kDepth][kTile];
  alignas(64) double sum[kTile][kTile];
};

// Rows past `rows` and depth past `depth` are zero.
template <class T>
OPFORGE_INLINE void pack(Tile& tile, const T* x, int64_t x_row, int64_t x_depth, int64_t rows,
                         const T* w, int64_t w_column, int64_t w_depth, int64_t columns,
                         int64_t depth) {
  for (int64_t i = 0; i < (rows + kRows - 1) / kRows * kRows; i++) {
    for (int64_t k = 0; k < depth; k++)
      tile.x[i][k] = i < rows ? to_f32(x[i * x_row + k * x_depth]) : 0.0f;
  }
  for (int64_t j = 0; j < kTile; j++) {
    if (j < columns) {
      for (int64_t k = 0; k < depth; k++) tile.w[k][j] = to_f32(w[j * w_column + k * w_depth]);
    } else {
      for (int64_t k = 0; k < depth; k++) tile.w[k][j] = 0.0f;
    }
  }
}

OPFORGE_INLINE void multiply(Tile& tile, int64_t rows, int64_t columns, int64_t depth) {
  for (int64_t i = 0; i < rows; i += kRows) {
    for (int64_t j = 0; j < columns; j += kPair) {
      Pair sums[kRows];
      for (Pair& sum : sums) sum = both(0.0f);
      for (int64_t k = 0; k < depth; k++) {
        const Pair w = {hn::Load(kF32, &tile.w[k][j]), hn::Load(kF32, &tile.w[k][j + kLanes])};
        for (int64_t r = 0; r < kRows; r++) sums[r] = fma(both(tile.x[i + r][k]), w, sums[r]);
      }
      alignas(64) float lanes[kPair];
      for (int64_t r = 0; r < kRows; r++) {
        hn::Store(sums[r].a, kF32, lanes);
        hn::Store(sums[r].b, kF32, lanes + kLanes);
        for (int64_t c = 0; c < kPair; c++) tile.sum[i + r][j + c] += static_cast<double>(lanes[c]);
      }
    }
  }
}

OPFORGE_INLINE Pair activate(Pair v, int32_t activation) {
  if (activation == 1) return gelu<0>(v);
  if (activation == 2) return gelu<1>(v);
  if (activation == 3) return silu(v);
  return v;
}

template <class V>
void gemm(const void* x_data, const void* w_data, const void* bias_data, void* y_data, int64_t rows,
          int64_t columns, int64_t depth, int64_t x_row, int64_t x_depth, int64_t w_column,
          int64_t w_depth, int64_t bias_stride, int64_t y_row, int64_t y_column, int32_t activation,
          int64_t begin, int64_t end) {
  using T = typename V::T;
  const T* x = static_cast<const T*>(x_data);
  const T* w = static_cast<const T*>(w_data);
  const T* bias = static_cast<const T*>(bias_data);
  T* y = static_cast<T*>(y_data);
  const int64_t column_tiles = (columns + kTile - 1) / kTile;
  Tile tile;
  for (int64_t item = begin; item < end; item++) {
    const int64_t m = item / column_tiles * kTile, n = item % column_tiles * kTile;
    const int64_t tile_rows = smaller(kTile, rows - m), tile_columns = smaller(kTile, columns - n);
    for (auto& row : tile.sum) {
      for (double& sum : row) sum = 0;
    }
    for (int64_t k = 0; k < depth; k += kDepth) {
      const int64_t part = smaller(kDepth, depth - k);
      pack(tile, x + m * x_row + k * x_depth, x_row, x_depth, tile_rows,
           w + n * w_column + k * w_depth, w_column, w_depth, tile_columns, part);
      multiply(tile, tile_rows, tile_columns, part);
    }
    for (int64_t i = 0; i < tile_rows; i++) {
      T* out = y + (m + i) * y_row + n * y_column;
      for (int64_t j = 0; j < tile_columns; j += kPair) {
        const int64_t count = smaller(kPair, tile_columns - j);
        alignas(64) float lanes[kPair] = {};
        for (int64_t c = 0; c < count; c++) {
          double sum = tile.sum[i][j + c];
          if (bias != nullptr) sum += static_cast<double>(to_f32(bias[(n + j + c) * bias_stride]));
          lanes[c] = static_cast<float>(sum);
        }
        const Pair v =
            activate({hn::Load(kF32, lanes), hn::Load(kF32, lanes + kLanes)}, activation);
        hn::Store(v.a, kF32, lanes);
        hn::Store(v.b, kF32, lanes + kLanes);
        for (int64_t c = 0; c < count; c++) out[(j + c) * y_column] = from_f32<T>(lanes[c]);
      }
    }
  }
}

}  // namespace cpu
using cpu::gemm;
}  // namespace opforge
