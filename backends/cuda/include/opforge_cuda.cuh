// Device helpers of CUDA C++ kernels. Includes nothing: NVRTC compiles it without any toolkit
// header.
//
// Element types, 1 to 16-byte (and wider) memory access, reductions in a fixed order,
// NaN-propagating maximum, thread block clusters and programmatic dependent launch. Everything here
// gives the same bits from run to run: no atomics, no order that depends on timing.
#pragma once

namespace opforge {

#define OPFORGE_DEVICE __device__ __forceinline__

// ----------------------------------------------------------------------------------------------
// element types Two-byte storage types. Arithmetic is done in float: convert with to_float() and
// from_float<T>() (nearest even; NaN stays NaN). Both have the size and layout of __nv_bfloat16 and
// __half.
struct bf16 {
  unsigned short bits;
  bf16() = default;
  OPFORGE_DEVICE explicit bf16(float value) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  OPFORGE_DEVICE explicit operator float() const {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  }
};
struct f16 {
  unsigned short bits;
  f16() = default;
  OPFORGE_DEVICE explicit f16(float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  OPFORGE_DEVICE explicit operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};

// A tensor map parameter (ParamType::kTensorMap): the driver's CUtensorMap. Entries take it as
// `const TensorMap&`; its address is what cp.async.bulk.tensor wants.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

template <class T>
OPFORGE_DEVICE float to_float(T value) {
  return static_cast<float>(value);
}
template <class T>
OPFORGE_DEVICE T from_float(float value) {
  return T(value);
}

template <class A, class B>
struct is_same {
  static constexpr bool value = false;
};
template <class A>
struct is_same<A, A> {
  static constexpr bool value = true;
};

constexpr float kLog2e = 1.4426950408889634f;
OPFORGE_DEVICE float infinity() { return __uint_as_float(0x7f800000u); }
OPFORGE_DEVICE float quiet_nan() { return __uint_as_float(0x7fffffffu); }

// ----------------------------------------------------------------------------------------------
// arithmetic max that gives NaN (canonical, 0x7fffffff) when either side is NaN, unlike fmaxf.
OPFORGE_DEVICE float nan_max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
// 2^x, 1/x and 1/sqrt(x) of the special function unit: about 2 ulp, 1 ulp, 2 ulp; subnormals are
// flushed to 0. For bounds tighter than that use exp2f, a division, or 1 / sqrtf.
OPFORGE_DEVICE float approx_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
OPFORGE_DEVICE float approx_rcp(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
OPFORGE_DEVICE float approx_rsqrt(float x) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// 2^x with relative error 2^-22, for results of type T: with gradual underflow where T has values
// below 2^-126.
template <class T>
OPFORGE_DEVICE float exp2_for(float x) {
  float r;
  if constexpr (is_same<T, f16>::value) {
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  } else {
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  }
  return r;
}
// Maxima of the two elements in a word each; NaN wins.
template <class T>
OPFORGE_DEVICE unsigned packed_max(unsigned a, unsigned b) {
  unsigned r;
  if constexpr (is_same<T, bf16>::value) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
  return r;
}

template <class I>
OPFORGE_DEVICE constexpr I ceil_div(I a, I b) {
  return (a + b - 1) / b;
}
template <class I>
OPFORGE_DEVICE constexpr I smaller(I a, I b) {
  return a < b ? a : b;
}

// ----------------------------------------------------------------------------------------------
// memory access N elements of T, kept as they lie in memory. Accesses are of N * sizeof(T) bytes at
// once, up to 16; more is several of
// 16. The address must be aligned to the access: `can_access<T, N>(p)`.
template <class T, int N>
struct Vector {
  static constexpr int kBytes = N * static_cast<int>(sizeof(T));
  static constexpr int kAccess = kBytes < 16 ? kBytes : 16;
  static_assert((kAccess & (kAccess - 1)) == 0 && kBytes % kAccess == 0,
                "N must be a power of two");
  static constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;
  unsigned words[kWords];

  OPFORGE_DEVICE T get(int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[i]);
    } else {
      T value;
      value.bits = static_cast<unsigned short>(words[i / 2] >> (i % 2 * 16));
      return value;
    }
  }
  OPFORGE_DEVICE void unpack(float (&out)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = to_float(get(i));
  }
  OPFORGE_DEVICE void pack(const float (&in)[N]) {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < N; ++i) words[i] = __float_as_uint(in[i]);
    } else if constexpr (N == 1) {
      words[0] = T(in[0]).bits;
    } else {
#pragma unroll
      for (int i = 0; i < N; i += 2) {
        // One instruction converts two elements; its first operand is the upper half.
        if constexpr (is_same<T, bf16>::value) {
          asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words[i / 2]) : "f"(in[i + 1]), "f"(in[i]));
        } else {
          asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(words[i / 2]) : "f"(in[i + 1]), "f"(in[i]));
        }
      }
    }
  }
  OPFORGE_DEVICE void fill(float value) {
    float all[N];
#pragma unroll
    for (int i = 0; i < N; ++i) all[i] = value;
    pack(all);
  }
};

template <class T, int N>
OPFORGE_DEVICE bool can_access(const T* p) {
  return reinterpret_cast<unsigned long long>(p) % Vector<T, N>::kAccess == 0;
}
// Elements before the first 16-byte boundary at or after p, at most n: handle them one by one, then
// go on with vectors.
template <class T>
OPFORGE_DEVICE int elements_to_boundary(const T* p, long long n) {
  const unsigned past = static_cast<unsigned>(reinterpret_cast<unsigned long long>(p) % 16);
  const long long head = past == 0 ? 0 : (16 - past) / static_cast<unsigned>(sizeof(T));
  return static_cast<int>(head < n ? head : n);
}

// How a load or store treats the caches.
//   kCached  plain: through L1 and L2. Right for any memory
//   kOnce    read or written once, L1 does not keep it: ld.global.L1::no_allocate, st.global.cs. Right
//            for any memory, so for rows that may be replaced in place
//   kKept    read-only data that many blocks read again (weights): ld.global.nc
//   kStream  as kOnce, for memory that nothing in this launch writes: ld.global.nc.L1::no_allocate
enum class Cache { kCached, kOnce, kKept, kStream };

#define OPFORGE_LOAD(modifier)                                                 \
  if constexpr (V::kAccess == 16) {                                            \
    asm volatile("ld.global" modifier ".v4.u32 {%0, %1, %2, %3}, [%4];"        \
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])              \
                 : "l"(p));                                                    \
  } else if constexpr (V::kAccess == 8) {                                      \
    asm volatile("ld.global" modifier ".v2.u32 {%0, %1}, [%2];"                \
                 : "=r"(w[0]), "=r"(w[1])                                      \
                 : "l"(p));                                                    \
  } else if constexpr (V::kAccess == 4) {                                      \
    asm volatile("ld.global" modifier ".u32 %0, [%1];" : "=r"(w[0]) : "l"(p)); \
  } else {                                                                     \
    unsigned short half;                                                       \
    asm volatile("ld.global" modifier ".u16 %0, [%1];" : "=h"(half) : "l"(p)); \
    w[0] = half;                                                               \
  }
#define OPFORGE_STORE(modifier)                                                                \
  if constexpr (V::kAccess == 16) {                                                            \
    asm volatile("st.global" modifier ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]),   \
                 "r"(w[1]), "r"(w[2]), "r"(w[3])                                               \
                 : "memory");                                                                  \
  } else if constexpr (V::kAccess == 8) {                                                      \
    asm volatile("st.global" modifier ".v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(w[0]), "r"(w[1]) \
                 : "memory");                                                                  \
  } else if constexpr (V::kAccess == 4) {                                                      \
    asm volatile("st.global" modifier ".u32 [%0], %1;" ::"l"(p), "r"(w[0]) : "memory");        \
  } else {                                                                                     \
    asm volatile("st.global" modifier ".u16 [%0], %1;" ::"l"(p),                               \
                 "h"(static_cast<unsigned short>(w[0]))                                        \
                 : "memory");                                                                  \
  }

template <class V, Cache kCache>
OPFORGE_DEVICE void load_words(const char* p, unsigned* w) {
  if constexpr (kCache == Cache::kStream) {
    OPFORGE_LOAD(".nc.L1::no_allocate")
  } else if constexpr (kCache == Cache::kOnce) {
    OPFORGE_LOAD(".L1::no_allocate")
  } else if constexpr (kCache == Cache::kKept) {
    OPFORGE_LOAD(".nc")
  } else {
    OPFORGE_LOAD("")
  }
}
template <class V, Cache kCache>
OPFORGE_DEVICE void store_words(char* p, const unsigned* w) {
  if constexpr (kCache == Cache::kStream || kCache == Cache::kOnce) {
    OPFORGE_STORE(".cs")
  } else {
    OPFORGE_STORE("")
  }
}
#undef OPFORGE_LOAD
#undef OPFORGE_STORE

template <int N, Cache kCache = Cache::kStream, class T>
OPFORGE_DEVICE Vector<T, N> load(const T* p) {
  using V = Vector<T, N>;
  V v;
#pragma unroll
  for (int at = 0; at < V::kBytes; at += V::kAccess) {
    load_words<V, kCache>(reinterpret_cast<const char*>(p) + at, v.words + at / 4);
  }
  return v;
}
template <Cache kCache = Cache::kStream, class T, int N>
OPFORGE_DEVICE void store(T* p, const Vector<T, N>& v) {
  using V = Vector<T, N>;
#pragma unroll
  for (int at = 0; at < V::kBytes; at += V::kAccess) {
    store_words<V, kCache>(reinterpret_cast<char*>(p) + at, v.words + at / 4);
  }
}
// One element as float, and back.
template <Cache kCache = Cache::kStream, class T>
OPFORGE_DEVICE float load_float(const T* p) {
  return to_float(load<1, kCache>(p).get(0));
}
template <Cache kCache = Cache::kStream, class T>
OPFORGE_DEVICE void store_float(T* p, float value) {
  Vector<T, 1> v;
  const float one[1] = {value};
  v.pack(one);
  store<kCache>(p, v);
}

// ----------------------------------------------------------------------------------------------
// warps Shuffle of a value of 4, 8, 12 or 16 bytes.
template <class T>
OPFORGE_DEVICE T shuffle_xor(T value, int lane_mask) {
  static_assert(sizeof(T) % 4 == 0, "whole words only");
  constexpr int kWords = sizeof(T) / 4;
  unsigned words[kWords];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_xor_sync(~0u, words[i], lane_mask);
  memcpy(&value, words, sizeof(T));
  return value;
}
// Butterfly over aligned groups of LANES lanes (a power of two up to 32) of a full warp: every lane
// gets the same bits, when op(a, b) and op(b, a) are the same bits.
template <int LANES, class T, class Op>
OPFORGE_DEVICE T warp_reduce(T value, Op op) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) value = op(value, shuffle_xor(value, mask));
  return value;
}
template <int LANES = 32>
OPFORGE_DEVICE float warp_sum(float value) {
  return warp_reduce<LANES>(value, [](float a, float b) { return a + b; });
}
// Maximum that propagates NaN. A whole warp takes one integer reduction over an order-preserving
// map, after NaN was made canonical (0x7fffffff, above +inf in that order).
template <int LANES = 32>
OPFORGE_DEVICE float warp_max(float value) {
  if constexpr (LANES == 32) {
    int i = __float_as_int(nan_max(value, value));
    i ^= (i >> 31) & 0x7fffffff;
    asm("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(i) : "r"(i));
    return __int_as_float(i ^ ((i >> 31) & 0x7fffffff));
  } else {
    return warp_reduce<LANES>(value, [](float a, float b) { return nan_max(a, b); });
  }
}

// ----------------------------------------------------------------------------------------------
// groups of threads THREADS threads of a block (one-dimensional) cut into groups of GROUP; each
// group reduces by itself, in a fixed order, and every thread of it gets the result. GROUP is a
// power of two: below 32 it is part of a warp. All threads of the block must take part when GROUP
// is the whole block, all of a group otherwise (15 groups of several warps at most).
template <int THREADS, int GROUP>
struct Group {
  static_assert((GROUP & (GROUP - 1)) == 0 && THREADS % GROUP == 0 && GROUP <= 1024, "bad group");
  static constexpr int kGroups = THREADS / GROUP;
  static constexpr int kLanes = GROUP < 32 ? GROUP : 32;
  static constexpr int kWarps = GROUP > 32 ? GROUP / 32 : 1;
  static_assert(GROUP <= 32 || kGroups <= 15, "named barriers 1..15");

  // Shared memory of one reduction of values of type T. A second reduction needs its own, or a
  // sync() between.
  template <class T>
  struct Scratch {
    T partial[kGroups][kWarps];
  };

  OPFORGE_DEVICE static int index() {
    return static_cast<int>(threadIdx.x) / GROUP;
  }  // which group
  OPFORGE_DEVICE static int rank() {
    return static_cast<int>(threadIdx.x) % GROUP;
  }  // thread in it
  OPFORGE_DEVICE static void sync() {
    if constexpr (GROUP <= 32) {
      __syncwarp();
    } else if constexpr (kGroups == 1) {
      __syncthreads();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(index() + 1), "n"(GROUP) : "memory");
    }
  }
  template <class T, class Op>
  OPFORGE_DEVICE static T reduce(T value, Op op, Scratch<T>& scratch) {
    value = warp_reduce<kLanes>(value, op);
    return across_warps(value, op, scratch);
  }
  OPFORGE_DEVICE static float sum(float value, Scratch<float>& scratch) {
    return reduce(
        value, [](float a, float b) { return a + b; }, scratch);
  }
  OPFORGE_DEVICE static float max(float value, Scratch<float>& scratch) {
    return across_warps(
        warp_max<kLanes>(value), [](float a, float b) { return nan_max(a, b); }, scratch);
  }
  // Combine the partial results of whole warps (the same in every lane of a warp).
  template <class T, class Op>
  OPFORGE_DEVICE static T across_warps(T value, Op op, Scratch<T>& scratch) {
    if constexpr (kWarps > 1) {
      if (threadIdx.x % 32 == 0) scratch.partial[index()][rank() / 32] = value;
      sync();
      value = warp_reduce<kWarps>(scratch.partial[index()][threadIdx.x % kWarps], op);
    }
    return value;
  }
};
template <int THREADS>
using Block = Group<THREADS, THREADS>;

// ----------------------------------------------------------------------------------------------
// clusters, dependent launch Thread block clusters (sm_90 on). Below, a block is a cluster of its
// own: rank 0 of 1.
OPFORGE_DEVICE unsigned cluster_rank() {
  unsigned r = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
#endif
  return r;
}
OPFORGE_DEVICE unsigned cluster_size() {
  unsigned r = 1;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
#endif
  return r;
}
// arrive: this block's writes to its own and the others' shared memory become visible to who waits.
// All threads call both.
OPFORGE_DEVICE void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
OPFORGE_DEVICE void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}
OPFORGE_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
// Write `value` (4-byte words) to the same shared variable of block `rank` of this cluster. That
// block must be running: one cluster_sync() after the start, and one before its shared memory goes
// away.
template <class T>
OPFORGE_DEVICE void cluster_store(T* shared, unsigned rank, T value) {
  static_assert(sizeof(T) % 4 == 0, "whole words only");
  constexpr int kWords = sizeof(T) / 4;
  unsigned words[kWords];
  memcpy(words, &value, sizeof(T));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const unsigned local = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  unsigned remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote + 4 * i), "r"(words[i])
                 : "memory");
  }
#else
  *shared = value;
#endif
}
// Programmatic dependent launch (LaunchStep::programmatic): call wait before the first read or
// write of memory that an earlier kernel may write, launch when the next kernel may begin its
// prologue. Nothing below sm_90.
OPFORGE_DEVICE void dependency_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
OPFORGE_DEVICE void dependents_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace opforge
