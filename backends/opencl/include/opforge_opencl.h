// What every OpenCL kernel gets before its own source: loads and stores that convert between a
// tensor's dtype and float. f16 needs no cl_khr_fp16 this way, and bf16 no type at all.
//
// T_LOAD(p, i): element i as a float. T_STORE(p, i, f): rounded to nearest, ties to even.
// T_LOAD8(p, i): elements 8 i to 8 i + 7 as a float8, from memory aligned to an element.
#pragma once

// Fused only where the source says so, so that the bits do not depend on the compiler's mood.
#pragma OPENCL FP_CONTRACT OFF

#define OPFORGE_LOAD_f32(p, i) ((p)[i])
#define OPFORGE_STORE_f32(p, i, v) ((p)[i] = (v))
#define OPFORGE_LOAD8_f32(p, i) vload8((i), (p))
#define OPFORGE_STORE8_f32(p, i, v) vstore8((v), (i), (p))

#define OPFORGE_LOAD_f16(p, i) vload_half((i), (p))
#define OPFORGE_STORE_f16(p, i, v) vstore_half_rte((v), (i), (p))
// By way of a variable: PoCL 3.1 takes vload_half8 and vstore_half8 to be aligned to 16 bytes,
// where the language promises 2.
static inline float8 opforge_from_f16(ushort8 bits) {
  return vload_half8(0, (const private half*)&bits);
}
static inline ushort8 opforge_f16_8(float8 value) {
  ushort8 bits;
  vstore_half8_rte(value, 0, (private half*)&bits);
  return bits;
}
#define OPFORGE_LOAD8_f16(p, i) opforge_from_f16(vload8((i), (global const ushort*)(p)))
#define OPFORGE_STORE8_f16(p, i, v) vstore8(opforge_f16_8(v), (i), (global ushort*)(p))

static inline ushort opforge_bf16(float value) {
  const uint bits = as_uint(value);
  // A NaN keeps its sign and its upper bits, and stays one.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
static inline ushort8 opforge_bf16_8(float8 value) {
  const uint8 bits = as_uint8(value);
  const uint8 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const int8 nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return convert_ushort8(select(rounded, (bits >> 16) | 0x40u, nan));
}
#define OPFORGE_LOAD_bf16(p, i) as_float((uint)(p)[i] << 16)
#define OPFORGE_STORE_bf16(p, i, v) ((p)[i] = opforge_bf16(v))
#define OPFORGE_LOAD8_bf16(p, i) as_float8(convert_uint8(vload8((i), (p))) << 16)
#define OPFORGE_STORE8_bf16(p, i, v) vstore8(opforge_bf16_8(v), (i), (p))
