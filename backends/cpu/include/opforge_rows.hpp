// Row kernels on the CPU: reading of row r and writing of row r - 1 in one loop, so that memory
// reads, arithmetic and streaming stores overlap; rows with any strides; tails.
//
// A variant V has: T, LAYOUT, STREAM, PREFETCH, PIPELINE.
//   LAYOUT    1: columns are contiguous; 0: any strides (also zero and negative), one element at a
//   time STREAM    1: non-temporal stores, in rows that start at a 64-byte boundary PREFETCH  bytes
//   ahead, into the L2 (up to 1024: into the L1); 0: none PIPELINE  1: as above; 0: one row after
//   the other
// None of them changes bits: lanes and order depend on the element type and the vector width alone.
#pragma once

#include "opforge_cpu.hpp"

namespace opforge {
namespace cpu {

// A member function of a kernel: hot loops must see through it.
#define OPFORGE_INLINE_MEMBER inline __attribute__((always_inline))

inline constexpr int64_t kStep = 2 * kPair;  // elements of a step
inline constexpr int64_t kChunk =
    512;  // elements that are passed over twice, while they are in the L1

struct Step {
  Pair low, high;  // elements [0, kPair) and [kPair, kStep)
};
OPFORGE_INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

// store<kStream>, for results that were computed: bf16 rounds half away from zero, in one addition.
// Such results are ties by chance only. A NaN must be one that came from a bf16 element or from the
// hardware (its low half is clear).
template <bool kStream, class T>
OPFORGE_INLINE void store_computed(T* p, Pair v) {
  if constexpr (is_same<T, bf16>) {
    const U half = hn::Set(kU32, 0x8000u);
    const U even = hn::ShiftRight<16>(hn::Add(hn::BitCast(kU32, v.a), half)),
            odd = hn::Add(hn::BitCast(kU32, v.b), half);
    const U word =
        hn::BitCast(kU32, hn::OddEven(hn::BitCast(U16Tag(), odd), hn::BitCast(U16Tag(), even)));
    if constexpr (kStream) {
      hn::Stream(word, kU32, reinterpret_cast<uint32_t*>(p));
    } else {
      hn::StoreU(word, kU32, reinterpret_cast<uint32_t*>(p));
    }
  } else {
    store<kStream>(p, v);
  }
}

// kStep elements of a row from `column` on, in the lane order of T; E is the element type in
// memory. kFull: all of them lie in the row; else those at `columns` and beyond are `fill`.
template <class T, bool kContiguous, bool kFull, class E>
OPFORGE_INLINE Step load_step(const E* row, int64_t stride, int64_t column, int64_t columns,
                              float fill = 0.0f) {
  if constexpr (kContiguous && kFull) {
    return {load_as<T>(row + column), load_as<T>(row + column + kPair)};
  } else {
    alignas(64) E buffer[kStep];
    const int64_t n = lesser(columns - column, kStep), step = kContiguous ? 1 : stride;
    for (int64_t i = 0; i < n; i++) buffer[i] = row[(column + i) * step];
    for (int64_t i = n; i < kStep; i++) buffer[i] = from_f32<E>(fill);
    return {load_as<T>(buffer), load_as<T>(buffer + kPair)};
  }
}
// 1 for the first n elements of a step and 0 for the others, in the lane order of T.
template <class T>
OPFORGE_INLINE Step first_elements(int64_t n) {
  alignas(64) T buffer[kStep];
  for (int64_t i = 0; i < kStep; i++) buffer[i] = from_f32<T>(i < n ? 1.0f : 0.0f);
  return {load(buffer), load(buffer + kPair)};
}
template <bool kContiguous, bool kFull, bool kStream, class T>
OPFORGE_INLINE void store_step(T* row, int64_t stride, int64_t column, int64_t columns, Step v) {
  if constexpr (kContiguous && kFull) {
    store_computed<kStream>(row + column, v.low);
    store_computed<kStream>(row + column + kPair, v.high);
  } else {
    alignas(64) T buffer[kStep];
    store_computed<false>(buffer, v.low);
    store_computed<false>(buffer + kPair, v.high);
    const int64_t n = lesser(columns - column, kStep), step = kContiguous ? 1 : stride;
    for (int64_t i = 0; i < n; i++) row[(column + i) * step] = buffer[i];
  }
}
template <class V, class T>
OPFORGE_INLINE void prefetch_step(const T* row, int64_t column) {
  if constexpr (V::PREFETCH > 0) {
    constexpr int kLevel = V::PREFETCH <= 1024 ? 1 : 2;
    prefetch<T, static_cast<int>(V::PREFETCH), kLevel>(row + column);
    prefetch<T, static_cast<int>(V::PREFETCH), kLevel>(row + column + kPair);
  }
}

// 2^-e for a finite value of magnitude 2^e; 1 for infinity and NaN, whose results need no help.
OPFORGE_INLINE float inverse_power(float magnitude) {
  const uint32_t e = f32_bits(magnitude) >> 23 & 255u;
  if (e == 255u) return 1.0f;
  return f32_from_bits((e < 1u ? 253u : e > 253u ? 1u : 254u - e) << 23);
}

// A row kernel K works in two stages. Each is a value that lives in registers while a row is passed
// over:
//   Reader  read<kFull>(column); chunk(from, to) closes kChunk columns (the last chunk may be
//   shorter) Writer  write<kFull, kStream>(column); may_stream
// Both take kStep columns at once; kFull is false for a last step that is not full.
//   reader(row) -> Reader; finish(Reader&) after the last chunk; writer(row) -> Writer, which takes
//   over what finish left, so that the next row can be read meanwhile.
template <class V, bool kRead, bool kWrite, bool kStream, class Reader, class Writer>
OPFORGE_INLINE void row_pass(Reader& reader_out, const Writer& writer_in, int64_t columns) {
  Reader reader = reader_out;  // copies: nothing that is stored can change them
  const Writer writer = writer_in;
  const int64_t full = columns / kStep * kStep;
  for (int64_t from = 0; from < columns; from += kChunk) {
    const int64_t to = lesser(from + kChunk, columns), steps = lesser(to, full);
    for (int64_t column = from; column < steps; column += kStep) {
      if constexpr (kRead) reader.template read<true>(column);
      if constexpr (kWrite) writer.template write<true, kStream>(column);
    }
    if (steps < to) {
      if constexpr (kRead) reader.template read<false>(full);
      if constexpr (kWrite) writer.template write<false, false>(full);
    }
    if constexpr (kRead) reader.chunk(from, to);
  }
  reader_out = reader;
}
template <class V, bool kRead, bool kWrite, class Reader, class Writer>
OPFORGE_INLINE void row_pass(Reader& reader, const Writer& writer, int64_t columns) {
  if constexpr (kWrite && V::STREAM == 1) {
    if (writer.may_stream) return row_pass<V, kRead, kWrite, true>(reader, writer, columns);
  }
  row_pass<V, kRead, kWrite, false>(reader, writer, columns);
}
template <class V, class K>
OPFORGE_INLINE void run_rows(K& kernel, int64_t columns, int64_t begin, int64_t end) {
  typename K::Reader reader{};
  typename K::Writer writer{};
  for (int64_t row = begin; row < end; row++) {
    reader = kernel.reader(row);
    if (V::PIPELINE == 1 && row > begin) {
      row_pass<V, true, true>(reader, writer, columns);
    } else {
      row_pass<V, true, false>(reader, writer, columns);
    }
    kernel.finish(reader);
    writer = kernel.writer(row);
    if constexpr (V::PIPELINE != 1) row_pass<V, false, true>(reader, writer, columns);
  }
  if constexpr (V::PIPELINE == 1) {
    if (begin < end) row_pass<V, false, true>(reader, writer, columns);
  }
  if constexpr (V::STREAM == 1) fence_streams();
}

}  // namespace cpu
}  // namespace opforge
