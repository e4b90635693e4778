// Two kernels. Both add 128 products in f32 at a time and keep the sum of those in two floats
// (LongSum), so that rounding does not grow with K.
//
// gemm      any dtype and strides: a block of 256 threads has 64 x 64 results, a thread 4 x 4; 16
//           of K at a time through shared memory. Every result is a chain of multiply-adds along K:
//           its bits do not depend on where in a tile it lies.
// gemm_mma  two-byte types on tensor cores: a block has 64 x 128 results, each of 8 warps 32 x 32;
//           32 of K at a time, the next tiles are on their way in registers meanwhile. Rows in
//           shared memory are 16 bytes longer than they need to be, so that eight of them start in
//           different banks.
#include "opforge_activations.cuh"
#include "opforge_mma.cuh"
#include "opforge_sums.cuh"

namespace opforge {

template <class T>
struct Operand {  // rows x depth
  const T* data;
  long long row, depth, rows;
};
template <class V>
struct Output {
  using T = typename V::T;
  T* y;
  const T* bias;
  long long rows, columns, y_row, y_column, bias_stride;
  int activation;

  OPFORGE_DEVICE void put(long long row, long long column, float v) const {
    if (row >= rows || column >= columns) return;
    if (bias != nullptr) v += load_float<Cache::kKept>(bias + column * bias_stride);
    if (activation == 1) v = gelu<0>(v);
    if (activation == 2) v = gelu<1>(v);
    if (activation == 3) v = silu(v);
    store_float<Cache::kCached>(y + row * y_row + column * y_column, v);
  }
};

constexpr int kPromote = 128;  // products that are added in f32

template <class V>
OPFORGE_DEVICE void gemm(const void* x, const void* w, const void* bias, void* y, long long rows,
                         long long columns, long long depth, long long x_row, long long x_depth,
                         long long w_column, long long w_depth, long long bias_stride,
                         long long y_row, long long y_column, int activation) {
  using T = typename V::T;
  constexpr int kTile = 64, kDepth = 16;
  __shared__ float tiles[2][kDepth][kTile + 4];
  const long long column_tiles = ceil_div(columns, static_cast<long long>(kTile));
  const long long m = blockIdx.x / column_tiles * kTile, n = blockIdx.x % column_tiles * kTile;
  const Operand<T> operands[2] = {
      {static_cast<const T*>(x) + m * x_row, x_row, x_depth, rows - m},
      {static_cast<const T*>(w) + n * w_column, w_column, w_depth, columns - n}};
  const int thread = static_cast<int>(threadIdx.x), tx = thread % 16 * 4, ty = thread / 16 * 4;
  float sums[4][4] = {};
  LongSum totals[4][4] = {};

  for (long long from = 0; from < depth; from += kDepth) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const Operand<T>& operand = operands[which];
#pragma unroll
      for (int i = 0; i < kTile * kDepth / 256; ++i) {
        const int row = thread / kDepth + i * (256 / kDepth), k = thread % kDepth;
        float v = 0.0f;
        if (row < operand.rows && from + k < depth)
          v = load_float<Cache::kKept>(operand.data + row * operand.row +
                                       (from + k) * operand.depth);
        tiles[which][k][row] = v;
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = tiles[0][k][ty + i], b[i] = tiles[1][k][tx + i];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
    __syncthreads();
    if ((from + kDepth) % kPromote == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) totals[i][j].add(sums[i][j]), sums[i][j] = 0.0f;
      }
    }
  }
  const Output<V> out{
      static_cast<T*>(y), static_cast<const T*>(bias), rows, columns, y_row, y_column, bias_stride,
      activation};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      totals[i][j].add(sums[i][j]);
      out.put(m + ty + i, n + tx + j, totals[i][j].total);
    }
  }
}

template <class V>
struct MmaTiles {
  using T = typename V::T;
  static constexpr int kM = 64, kN = 128, kK = 32;
  static constexpr bool kAlongN = V::LAYOUT == 2;  // w's rows in memory
  static constexpr int kRow = kK + 8, kRowN = kN + 8;
  alignas(16) T x[kM * kRow];
  alignas(16) T w[kAlongN ? kK * kRowN : kN * kRow];
};

// The vectors of the next tiles that a thread carries from global to shared memory: one of x, two
// of w.
template <class V>
struct MmaCarry {
  using T = typename V::T;
  using Tiles = MmaTiles<V>;
  Vector<T, 8> x, w[2];

  // `data` with rows along memory; zero outside.
  OPFORGE_DEVICE static Vector<T, 8> fetch(const T* data, long long row_stride, long long row,
                                           long long rows, long long column, long long columns) {
    Vector<T, 8> v;
    if (row < rows && column < columns) {
      v = opforge::load<8, Cache::kKept>(data + row * row_stride + column);
    } else {
      v.fill(0.0f);
    }
    return v;
  }
  OPFORGE_DEVICE void load(const Operand<T>& a, const Operand<T>& b, long long from,
                           long long depth) {
    const int thread = static_cast<int>(threadIdx.x);
    x = fetch(a.data, a.row, thread / 4, a.rows, from + thread % 4 * 8, depth);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w[i] =
          Tiles::kAlongN
              ? fetch(b.data, b.depth, from + i * 16 + thread / 16, depth, thread % 16 * 8, b.rows)
              : fetch(b.data, b.row, i * 64 + thread / 4, b.rows, from + thread % 4 * 8, depth);
    }
  }
  OPFORGE_DEVICE static void put(T* shared, const Vector<T, 8>& v) {
    *reinterpret_cast<uint4*>(shared) = make_uint4(v.words[0], v.words[1], v.words[2], v.words[3]);
  }
  OPFORGE_DEVICE void store(Tiles& tiles) const {
    const int thread = static_cast<int>(threadIdx.x);
    put(tiles.x + thread / 4 * Tiles::kRow + thread % 4 * 8, x);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      put(Tiles::kAlongN ? tiles.w + (i * 16 + thread / 16) * Tiles::kRowN + thread % 16 * 8
                         : tiles.w + (i * 64 + thread / 4) * Tiles::kRow + thread % 4 * 8,
          w[i]);
    }
  }
};

// One warp's 32 x 32 results of the tiles in shared memory, 16 of K at `k`.
template <class V>
OPFORGE_DEVICE void multiply(const MmaTiles<V>& tiles, int row, int column, int k,
                             float (&sums)[2][4][4]) {
  using Tiles = MmaTiles<V>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int eighth = lane % 8, second = lane / 8 % 2 * 8, fourth = lane / 16 * 8;
  unsigned a[2][4], b[2][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    load_matrices<false>(a[i],
                         tiles.x + (row + i * 16 + eighth + second) * Tiles::kRow + k + fourth);
    if constexpr (Tiles::kAlongN) {
      load_matrices<true>(
          b[i], tiles.w + (k + eighth + second) * Tiles::kRowN + column + i * 16 + fourth);
    } else {
      load_matrices<false>(
          b[i], tiles.w + (column + i * 16 + eighth + fourth) * Tiles::kRow + k + second);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) mma_16x8x16<typename V::T>(sums[i][j], a[i], &b[j / 2][j % 2 * 2]);
  }
}

template <class V>
OPFORGE_DEVICE void gemm_mma(const void* x, const void* w, const void* bias, void* y,
                             long long rows, long long columns, long long depth, long long x_row,
                             long long x_depth, long long w_column, long long w_depth,
                             long long bias_stride, long long y_row, long long y_column,
                             int activation) {
  using T = typename V::T;
  using Tiles = MmaTiles<V>;
  __shared__ Tiles tiles;
  const long long column_tiles = ceil_div(columns, static_cast<long long>(Tiles::kN));
  const long long m = blockIdx.x / column_tiles * Tiles::kM;
  const long long n = blockIdx.x % column_tiles * Tiles::kN;
  const Operand<T> a{static_cast<const T*>(x) + m * x_row, x_row, x_depth, rows - m};
  const Operand<T> b{static_cast<const T*>(w) + n * w_column, w_column, w_depth, columns - n};
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp % 2 * 32, column = warp / 2 * 32;
  float sums[2][4][4] = {};
  LongSum totals[2][4][4] = {};
  const auto promote = [&] {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) totals[i][j][e].add(sums[i][j][e]), sums[i][j][e] = 0.0f;
      }
    }
  };

  MmaCarry<V> carry;
  carry.load(a, b, 0, depth);
  for (long long from = 0; from < depth; from += Tiles::kK) {
    carry.store(tiles);
    __syncthreads();
    carry.load(a, b, from + Tiles::kK, depth);
#pragma unroll
    for (int k = 0; k < Tiles::kK; k += 16) multiply<V>(tiles, row, column, k, sums);
    __syncthreads();
    if ((from + Tiles::kK) % kPromote == 0) promote();
  }
  promote();
  const Output<V> out{
      static_cast<T*>(y), static_cast<const T*>(bias), rows, columns, y_row, y_column, bias_stride,
      activation};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out.put(m + row + i * 16 + e / 2 * 8 + lane / 4, n + column + j * 8 + lane % 4 * 2 + e % 2,
                totals[i][j][e].total);
      }
    }
  }
}

}  // namespace opforge
