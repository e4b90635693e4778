// Tensor core instructions for two-byte types (sm_80 on).
//
// Fragments of D (16 x 8) += A (16 x 16) B (16 x 8), lane l, g = l / 4, t = l % 4:
//   a[0..3]  rows g, g + 8, g, g + 8; columns 2t, 2t+1 (a[0], a[1]) and 8 + 2t, 9 + 2t (a[2], a[3])
//   b[0..1]  rows 2t, 2t+1 and 8 + 2t, 9 + 2t; column g
//   d[0..3]  row g: columns 2t, 2t+1; row g + 8: columns 2t, 2t+1
// (PTX ISA, "Matrix Fragments for mma.m16n8k16")
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

template <class T>
OPFORGE_DEVICE void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned* b) {
  if constexpr (is_same<T, bf16>::value) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// Four 8 x 8 matrices of two-byte elements from shared memory: lane l gives the address of row l %
// 8 of matrix l / 8 (16-byte aligned), and gets elements 2t, 2t+1 of row g of each; kTranspose:
// rows 2t, 2t+1 of column g.
template <bool kTranspose>
OPFORGE_DEVICE void load_matrices(unsigned (&r)[4], const void* shared) {
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  }
}

}  // namespace opforge
