#ifndef MICA_KERNELS_CPU_SIMD_VEC_GENERIC_H_
#define MICA_KERNELS_CPU_SIMD_VEC_GENERIC_H_

#include <cstdint>

// What vec.h promises, by the compiler's vectors of 16 bytes alone: SSE2, or
// NEON. Included by vec.h.
//
// Where the processor has no fused multiply-add a product is rounded before it
// is added. There are no loads and stores under a mask: those go lane by lane.

namespace mica::cpu::MICA_SIMD_NAMESPACE {

inline constexpr int kLanes = 4;

using Vf = float __attribute__((vector_size(16)));
using Vi = int32_t __attribute__((vector_size(16)));
using Vu = uint32_t __attribute__((vector_size(16)));
using Vm = Vi;

MICA_INLINE Vu Bits(Vf x) { return reinterpret_cast<Vu>(x); }
MICA_INLINE Vf FromBits(Vu x) { return reinterpret_cast<Vf>(x); }

MICA_INLINE Vf Set(float x) { return Vf{x, x, x, x}; }
MICA_INLINE Vf Zero() { return Vf{}; }
MICA_INLINE Vf Load(const float* p) {
  Vf x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
MICA_INLINE void Store(float* p, Vf x) { __builtin_memcpy(p, &x, sizeof x); }
MICA_INLINE Vm FirstLanes(int64_t n) {
  const auto count = static_cast<int32_t>(n);
  return Vi{0, 1, 2, 3} < Vi{count, count, count, count};
}
MICA_INLINE Vf Load(const float* p, Vm m) {
  Vf x = Zero();
  MICA_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    if (m[i] != 0) x[i] = p[i];
  }
  return x;
}
MICA_INLINE void Store(float* p, Vf x, Vm m) {
  MICA_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    if (m[i] != 0) p[i] = x[i];
  }
}
MICA_INLINE Vi LoadLanes(const int32_t* p) {
  Vi lanes;
  __builtin_memcpy(&lanes, p, sizeof lanes);
  return lanes;
}
MICA_INLINE Vf Permute(Vf x, Vi lanes) {
  Vf y = Zero();
  MICA_UNROLL
  for (int i = 0; i < kLanes; ++i) y[i] = x[lanes[i]];
  return y;
}
MICA_INLINE Vf Fma(Vf a, Vf b, Vf c) { return a * b + c; }
// As in vec.h: sums stay in their registers.
MICA_INLINE void AddProduct(Vf a, Vf b, Vf& sum) {
#if defined(__SSE__)
  const Vf product = a * b;
  asm("addps %1, %0" : "+x"(sum) : "x"(product));
#else
  sum += a * b;
#endif
}
MICA_INLINE Vf Fnma(Vf a, Vf b, Vf c) { return c - a * b; }
MICA_INLINE Vf Max(Vf a, Vf b) { return a > b ? a : b; }
MICA_INLINE Vf Min(Vf a, Vf b) { return a < b ? a : b; }
MICA_INLINE Vf Sqrt(Vf a) {
  return Vf{__builtin_sqrtf(a[0]), __builtin_sqrtf(a[1]), __builtin_sqrtf(a[2]),
            __builtin_sqrtf(a[3])};
}
MICA_INLINE Vf Abs(Vf a) { return FromBits(Bits(a) & 0x7fffffffu); }
MICA_INLINE Vf CopySign(Vf size, Vf sign) {
  return FromBits(Bits(size) | (Bits(sign) & 0x80000000u));
}
MICA_INLINE Vm IsNan(Vf a) { return a != a; }
MICA_INLINE bool HasLanes(Vm m) { return (m[0] | m[1] | m[2] | m[3]) != 0; }
MICA_INLINE Vm Less(Vf a, Vf b) { return a < b; }
MICA_INLINE Vm LessEqual(Vf a, Vf b) { return a <= b; }
MICA_INLINE Vf Select(Vm m, Vf a, Vf b) { return m ? a : b; }
// From 2^23 on a float has no fraction; below, adding that much rounds it off.
MICA_INLINE Vf Round(Vf a) {
  const Vf whole = Set(8388608.0f), size = Abs(a);
  return Select(size < whole, CopySign((size + whole) - whole, a), a);
}
MICA_INLINE Vf Scale2(Vf x, Vf n) {
  const Vi k = __builtin_convertvector(n, Vi);
  const Vi half = k >> 1;
  const Vu e1 = reinterpret_cast<Vu>(half) + 127u;
  const Vu e2 = reinterpret_cast<Vu>(k) - reinterpret_cast<Vu>(half) + 127u;
  return x * FromBits(e1 << 23) * FromBits(e2 << 23);
}
MICA_INLINE Vf ScaleToDenormal(Vf x, Vf n) {
  const Vf whole = Set(0x1p23f);
  const Vf count = Scale2(x, n + Set(149.0f)) + whole;
  return FromBits(reinterpret_cast<Vu>(count) - reinterpret_cast<Vu>(whole));
}
MICA_INLINE float SumLanes(Vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
MICA_INLINE float MaxLanes(Vf a) {
  const Vf b = Max(a, Vf{a[2], a[3], a[2], a[3]});
  return b[0] > b[1] ? b[0] : b[1];
}

MICA_INLINE void Transpose(Vf (&r)[4]) {
  const Vf a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
  const Vf b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const Vf c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const Vf d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#endif  // MICA_KERNELS_CPU_SIMD_VEC_GENERIC_H_
