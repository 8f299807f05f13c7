// The types that a region's functions are written over, as vector registers.
//
// A function is `template <class F> MICA_LANES F Exp(F x)`, where F is a float
// type of some lanes: Floats here, or one whose operators write LLVM's
// intermediate form (kernels/llvm). It uses no more than what follows, never a
// lane by itself, nothing that depends on their number, and has no branches
// but those of IfAny and WhileAny.
//
//   F: Element, Int, Mask, kIsDouble
//     F::Of(double)               all lanes that number, rounded to Element
//     + - * /, unary -            rounded one by one (-ffp-contract=off)
//     Fma(a, b, c)                a b + c, rounded once if F::Fuses()
//     F::Fuses()                  false at level v1 alone
//     Sqrt Abs Round (halves to the even one) Floor Ceil Trunc
//     CopySign(size, sign)
//     Less LessEqual Equal        ordered; IsNan
//     Select(mask, a, b)          mask ? a : b, of ints too
//     Bits(a), FromBits<F>(i)
//     ToInt(a), ToFloat<F>(i)     of integers below 2^31, in doubles 2^51
//   Int, of Element's size, wraps around: Int::Of(int64_t) + - * & | ^ ~
//     ShiftLeft ShiftRight (logical) ShiftRightArithmetic (i, int)
//     LessInt (signed) EqualInt
//   Mask: & | !, Mask::Of(bool)
//   IfAny(mask, usual, special)   usual, but special() in lanes of the mask
//   WhileAny(x, cond, body)       x = body(x) in the lanes of cond(x), until
//                                 there are none; at most 4096 rounds
//   Gather<F>(table, index)       table[index], which must be in range
//
// A source that includes this may be compiled for several instruction sets,
// with MICA_SIMD_NAMESPACE as in kernels/cpu/simd/vec.h.

#ifndef MICA_KERNELS_REGION_LANES_H_
#define MICA_KERNELS_REGION_LANES_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#define MICA_LANES inline __attribute__((always_inline))
#define MICA_LANES_LAMBDA __attribute__((always_inline))

#if defined(MICA_SIMD_NAMESPACE)
#define MICA_REGION_NAMESPACE region::MICA_SIMD_NAMESPACE
#else
#define MICA_REGION_NAMESPACE region
#endif

namespace mica::MICA_REGION_NAMESPACE {

// Of a whole register of this level.
#if defined(__AVX512F__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

template <class T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};

// Yes or no for each lane beside elements of the int type T: all bits of a
// lane, or one bit in a mask register beside a whole register of AVX-512.
template <class T, int N>
struct Masks {
#if defined(__AVX512F__)
  static constexpr bool kIsRegister = N * sizeof(T) == 64;
#else
  static constexpr bool kIsRegister = false;
#endif
  using Wide = typename VectorOf<T, N>::type;
  using Narrow = std::conditional_t<N == 16, uint16_t, uint8_t>;
  using Value = std::conditional_t<kIsRegister, Narrow, Wide>;
  Value v;

  static MICA_LANES Masks Of(bool yes) {
    if constexpr (kIsRegister) {
      return {static_cast<Narrow>(yes ? -1 : 0)};
    } else {
      return {Wide{} - T{yes}};
    }
  }
  friend MICA_LANES Masks operator&(Masks a, Masks b) {
    return {static_cast<Value>(a.v & b.v)};
  }
  friend MICA_LANES Masks operator|(Masks a, Masks b) {
    return {static_cast<Value>(a.v | b.v)};
  }
  friend MICA_LANES Masks operator!(Masks a) {
    return {static_cast<Value>(~a.v)};
  }
};

// Ints of the signed type T, kept as unsigned ones, which wrap around.
template <class T, int N>
struct Ints {
  using Unsigned = std::make_unsigned_t<T>;
  using Vector = typename VectorOf<Unsigned, N>::type;
  using Signed = typename VectorOf<T, N>::type;
  using Mask = Masks<T, N>;
  Vector v;

  static MICA_LANES Ints Of(int64_t x) {
    return {Vector{} + static_cast<Unsigned>(x)};
  }
  friend MICA_LANES Ints operator+(Ints a, Ints b) { return {a.v + b.v}; }
  friend MICA_LANES Ints operator-(Ints a, Ints b) { return {a.v - b.v}; }
  friend MICA_LANES Ints operator*(Ints a, Ints b) { return {a.v * b.v}; }
  friend MICA_LANES Ints operator&(Ints a, Ints b) { return {a.v & b.v}; }
  friend MICA_LANES Ints operator|(Ints a, Ints b) { return {a.v | b.v}; }
  friend MICA_LANES Ints operator^(Ints a, Ints b) { return {a.v ^ b.v}; }
  friend MICA_LANES Ints operator~(Ints a) { return {~a.v}; }
};

template <class T, int N>
struct Floats {
  static constexpr bool kIsDouble = sizeof(T) == 8;
  using Element = T;
  using Vector = typename VectorOf<T, N>::type;
  using Int = Ints<std::conditional_t<kIsDouble, int64_t, int32_t>, N>;
  using Mask = typename Int::Mask;
  Vector v;

  // Less 0, which leaves -0 as it is.
  static MICA_LANES Floats Of(double x) {
    return {static_cast<T>(x) - Vector{}};
  }
  static constexpr bool Fuses() {
#if defined(__FMA__)
    return true;
#else
    return false;
#endif
  }
  friend MICA_LANES Floats operator+(Floats a, Floats b) { return {a.v + b.v}; }
  friend MICA_LANES Floats operator-(Floats a, Floats b) { return {a.v - b.v}; }
  friend MICA_LANES Floats operator*(Floats a, Floats b) { return {a.v * b.v}; }
  friend MICA_LANES Floats operator/(Floats a, Floats b) { return {a.v / b.v}; }
  friend MICA_LANES Floats operator-(Floats a) { return {-a.v}; }
};

// Floats or ints as they lie in memory.
template <class Lanes>
MICA_LANES Lanes LoadLanes(const void* p) {
  Lanes x;
  __builtin_memcpy(&x.v, p, sizeof x.v);
  return x;
}
template <class Lanes>
MICA_LANES void StoreLanes(void* p, Lanes x) {
  __builtin_memcpy(p, &x.v, sizeof x.v);
}

// What follows is for vectors of any size, by the compiler's own operators.
// lanes_x86.h has overloads for whole registers.

template <class T, int N>
MICA_LANES Ints<T, N> ShiftLeft(Ints<T, N> a, int bits) {
  return {a.v << bits};
}
template <class T, int N>
MICA_LANES Ints<T, N> ShiftRight(Ints<T, N> a, int bits) {
  return {a.v >> bits};
}
template <class T, int N>
MICA_LANES Ints<T, N> ShiftRightArithmetic(Ints<T, N> a, int bits) {
  using I = Ints<T, N>;
  return {(typename I::Vector)((typename I::Signed)a.v >> bits)};
}
template <class T, int N>
MICA_LANES Masks<T, N> LessInt(Ints<T, N> a, Ints<T, N> b) {
  using Signed = typename Ints<T, N>::Signed;
  return {(Signed)a.v < (Signed)b.v};
}
template <class T, int N>
MICA_LANES Masks<T, N> EqualInt(Ints<T, N> a, Ints<T, N> b) {
  return {a.v == b.v};
}
template <class T, int N>
MICA_LANES Ints<T, N> Select(Masks<T, N> m, Ints<T, N> a, Ints<T, N> b) {
  using Vector = typename Ints<T, N>::Vector;
  return {((Vector)m.v & a.v) | (~(Vector)m.v & b.v)};
}
// Whether any lane is in the mask.
template <class T, int N>
MICA_LANES bool Any(Masks<T, N> m) {
  if constexpr (Masks<T, N>::kIsRegister) {
    return m.v != 0;
  } else {
    T any = 0;
    for (int i = 0; i < N; ++i) any |= m.v[i];
    return any != 0;
  }
}

template <class T, int N>
MICA_LANES auto Bits(Floats<T, N> a) {
  using Int = typename Floats<T, N>::Int;
  return Int{(typename Int::Vector)a.v};
}
template <class F, class T, int N>
MICA_LANES F FromBits(Ints<T, N> a) {
  return {(typename F::Vector)a.v};
}
template <class T, int N>
MICA_LANES auto Less(Floats<T, N> a, Floats<T, N> b) {
  return typename Floats<T, N>::Mask{a.v < b.v};
}
template <class T, int N>
MICA_LANES auto LessEqual(Floats<T, N> a, Floats<T, N> b) {
  return typename Floats<T, N>::Mask{a.v <= b.v};
}
template <class T, int N>
MICA_LANES auto Equal(Floats<T, N> a, Floats<T, N> b) {
  return typename Floats<T, N>::Mask{a.v == b.v};
}
template <class T, int N>
MICA_LANES auto IsNan(Floats<T, N> a) {
  return typename Floats<T, N>::Mask{a.v != a.v};
}
template <class T, int N>
MICA_LANES Floats<T, N> Select(typename Floats<T, N>::Mask m, Floats<T, N> a,
                               Floats<T, N> b) {
  return FromBits<Floats<T, N>>(Select(m, Bits(a), Bits(b)));
}

template <class F>
inline constexpr int64_t kSignBit = F::kIsDouble ? INT64_MIN : INT32_MIN;

template <class T, int N>
MICA_LANES Floats<T, N> Abs(Floats<T, N> a) {
  using F = Floats<T, N>;
  return FromBits<F>(Bits(a) & ~F::Int::Of(kSignBit<F>));
}
template <class T, int N>
MICA_LANES Floats<T, N> CopySign(Floats<T, N> size, Floats<T, N> sign) {
  using F = Floats<T, N>;
  const auto bit = F::Int::Of(kSignBit<F>);
  return FromBits<F>((Bits(size) & ~bit) | (Bits(sign) & bit));
}
template <class T, int N>
MICA_LANES Floats<T, N> Fma(Floats<T, N> a, Floats<T, N> b, Floats<T, N> c) {
  if constexpr (Floats<T, N>::Fuses()) {
    for (int i = 0; i < N; ++i) c.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
    return c;
  } else {
    return a * b + c;
  }
}
template <class T, int N>
MICA_LANES Floats<T, N> Sqrt(Floats<T, N> a) {
  for (int i = 0; i < N; ++i) a.v[i] = std::sqrt(a.v[i]);
  return a;
}
// From 2^23, or 2^52, on there are no fractions; below, adding that much rounds
// them off.
template <class T, int N>
MICA_LANES Floats<T, N> Round(Floats<T, N> a) {
  using F = Floats<T, N>;
  const F whole = F::Of(F::kIsDouble ? 0x1p52 : 0x1p23), size = Abs(a);
  return Select(Less(size, whole), CopySign((size + whole) - whole, a), a);
}
template <class T, int N>
MICA_LANES Floats<T, N> Floor(Floats<T, N> a) {
  using F = Floats<T, N>;
  const F near = Round(a);
  return Select(Less(a, near), CopySign(near - F::Of(1), a), near);
}
template <class T, int N>
MICA_LANES Floats<T, N> Ceil(Floats<T, N> a) {
  return -Floor(-a);
}
template <class T, int N>
MICA_LANES Floats<T, N> Trunc(Floats<T, N> a) {
  return CopySign(Floor(Abs(a)), a);
}

// Between doubles and int64 by 1.5 2^52, whose last bit is 1, where the
// processor has no conversions.
#if !defined(__SSE2__) || defined(__AVX512DQ__)
inline constexpr bool kConvertsDoubles = true;
#else
inline constexpr bool kConvertsDoubles = false;
#endif
template <class T, int N>
MICA_LANES auto ToInt(Floats<T, N> a) {
  using F = Floats<T, N>;
  using Int = typename F::Int;
  if constexpr (F::kIsDouble && !kConvertsDoubles) {
    const F one_and_half = F::Of(0x1.8p52);
    return Bits(a + one_and_half) - Bits(one_and_half);
  } else {
    return Int{(typename Int::Vector) __builtin_convertvector(
        a.v, typename Int::Signed)};
  }
}
template <class F, class T, int N>
MICA_LANES F ToFloat(Ints<T, N> a) {
  if constexpr (F::kIsDouble && !kConvertsDoubles) {
    const F one_and_half = F::Of(0x1.8p52);
    return FromBits<F>(a + Bits(one_and_half)) - one_and_half;
  } else {
    return {__builtin_convertvector((typename Ints<T, N>::Signed)a.v,
                                    typename F::Vector)};
  }
}
template <class E, class T, int N>
MICA_LANES Floats<E, N> GatherFrom(const E* table, Ints<T, N> index) {
  Floats<E, N> y;
  for (int i = 0; i < N; ++i) y.v[i] = table[index.v[i]];
  return y;
}
template <class F, int K, class T, int N>
MICA_LANES F Gather(const typename F::Element (&table)[K], Ints<T, N> index) {
  return GatherFrom(&table[0], index);
}

template <class F, class T, int N, class Fn>
MICA_LANES F IfAny(Masks<T, N> m, F usual, Fn special) {
  if (__builtin_expect(Any(m), 0)) usual = Select(m, special(), usual);
  return usual;
}
template <class T, int N, class Cond, class Body>
MICA_LANES Floats<T, N> WhileAny(Floats<T, N> x, Cond cond, Body body) {
  for (int round = 0; round < 4096; ++round) {
    const auto m = cond(x);
    if (!Any(m)) break;
    x = Select(m, body(x), x);
  }
  return x;
}

}  // namespace mica::MICA_REGION_NAMESPACE

#if defined(__SSE2__)
#include "kernels/region/lanes_x86.h"
#endif

#endif  // MICA_KERNELS_REGION_LANES_H_
