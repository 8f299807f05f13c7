// Trigonometric functions over the types of lanes.h.
//
// An angle becomes a number of quarter turns and a rest of at most an eighth
// turn, kept as two floats, high + low, as the rest of an angle near a quarter
// turn has few digits of the angle's own. For usual angles that is Cody and
// Waite's method: pi/2 in parts so short that their multiples are exact. For
// the others it is Payne and Hanek's: of 1/(2 pi) only those digits are
// multiplied that make neither whole turns nor less than what counts. The
// polynomials are tools/fit_special_functions.py's.

#ifndef MICA_KERNELS_REGION_TRIGONOMETRIC_H_
#define MICA_KERNELS_REGION_TRIGONOMETRIC_H_

#include <cstdint>
#include <limits>

#include "kernels/region/arithmetic.h"
#include "kernels/region/lanes.h"

namespace mica::MICA_REGION_NAMESPACE {

// The first bytes of the fraction of 1 / (2 pi).
inline constexpr uint8_t kOneOver2Pi[] = {
    0x28, 0xbe, 0x60, 0xdb, 0x93, 0x91, 0x05, 0x4a, 0x7f, 0x09, 0xd5, 0xf4,
    0x7d, 0x4d, 0x37, 0x70, 0x36, 0xd8, 0xa5, 0x66, 0x4f, 0x10, 0xe4, 0x10,
    0x7f, 0x94, 0x58, 0xea, 0xf7, 0xae, 0xf1, 0x58, 0x6d, 0xc9, 0x1b, 0x8e,
    0x90, 0x93, 0x74, 0xb8, 0x01, 0x92, 0x4b, 0xba, 0x82, 0x74, 0x64, 0x87,
    0x3f, 0x87, 0x7a, 0xc7, 0x2c, 0x4a, 0x69, 0xcf, 0xba, 0x20, 0x8d, 0x7d,
    0x4b, 0xae, 0xd1, 0x21, 0x3a, 0x67, 0x1c, 0x09, 0xad, 0x17, 0xdf, 0x90,
    0x4e, 0x64, 0x75, 0x8e, 0x60, 0xd4, 0xce, 0x7d, 0x27, 0x21, 0x17, 0xe2,
    0xef, 0x7e, 0x4a, 0x0e, 0xc7, 0xfe, 0x25, 0xff, 0xf7, 0x81, 0x66, 0x03,
    0xfb, 0xcb, 0xc4, 0x62, 0xd6, 0x82, 0x9b, 0x47, 0xdb, 0x4d, 0x9f, 0xb3,
    0xc9, 0xf2, 0xc2, 0x6d, 0xd3, 0xd1, 0x8f, 0xd9, 0xa7, 0x97, 0xfa, 0x8b,
    0x5d, 0x49, 0xee, 0xb1, 0xfa, 0xf9, 0x7c, 0x5e, 0xcf, 0x41, 0xce, 0x7d,
    0xe2, 0x94, 0xa4, 0xba, 0x9a, 0xfe, 0xd7, 0xec, 0x47, 0xe3, 0x57, 0x42,
    0x15, 0x80, 0xcc, 0x11, 0xbf, 0x1e};

// Entry i is half as many bits of 1 / (2 pi) as E has, as an integer, from byte
// i - kBefore on. Before the point there are zeros.
template <class E>
struct TurnDigits {
  static constexpr int kBytes = sizeof(E) / 2;
  static constexpr int kBefore = kBytes;
  static constexpr int kSize = kBytes == 4 ? 147 : 26;
  E at[kSize];

  constexpr TurnDigits() : at() {
    for (int i = 0; i < kSize; ++i) {
      uint64_t digits = 0;
      for (int byte = i - kBefore; byte < i - kBefore + kBytes; ++byte) {
        digits = digits << 8 | (byte < 0 ? 0 : kOneOver2Pi[byte]);
      }
      at[i] = static_cast<E>(digits);
    }
  }
};
template <class E>
inline constexpr TurnDigits<E> kTurnDigits;

// quarters pi/2 + high + low, |high| a little more than pi/4 at most.
template <class F>
struct Angle {
  F high, low;
  typename F::Int quarters;  // Their last two bits at least.
};

// Up to here the parts' multiples are exact: less than 2^11, or 2^20, quarters.
template <class F>
inline constexpr double kUsualAngle = F::kIsDouble ? 0x1.9p20 : 0x1.9p11;

// Of 0 <= x <= kUsualAngle. All but the last product and difference are exact.
template <class F>
MICA_LANES Angle<F> UsualAngle(F x) {
  constexpr bool kIsDouble = F::kIsDouble;
  const F part1 = F::Of(kIsDouble ? 0x1.921fb544p+0 : 0x1.922p+0),
          part2 = F::Of(kIsDouble ? 0x1.0b46p-34 : -0x1.28p-18),
          part3 = F::Of(kIsDouble ? 0x1.1a626332p-54 : -0x1.778p-25),
          part4 = F::Of(kIsDouble ? -0x1.747f23e32ed7p-87 : 0x1.68c234p-39);
  const F n = Round(x * F::Of(0x1.45f306dc9c883p-1));
  const F minus = -n;
  const F rest = Fma(minus, part2, Fma(minus, part1, x));
  const F product = n * part3;
  const F high = rest - product;
  return {high, Fma(minus, part4, (rest - high) - product), ToInt(n)};
}

// A place of a product of numbers of several digits, and what the next one
// gets.
template <class I>
struct Place {
  I digit, carry;
};

// The digits of x / (2 pi), less whole turns, for x >= kUsualAngle: four digits
// of half as many bits as x has.
template <class F>
struct Turns {
  typename F::Int first, second, third, fourth;
};
template <class F>
MICA_LANES Turns<F> TurnsOf(F x) {
  using Int = typename F::Int;
  using Digits = TurnDigits<typename F::Element>;
  constexpr int kMantissa = F::kIsDouble ? 52 : 23;
  constexpr int kBias = F::kIsDouble ? 1023 : 127;
  constexpr int kDigit = F::kIsDouble ? 32 : 16;
  const Int mask = Int::Of((int64_t{1} << kDigit) - 1);
  // x = m 2^(8 byte), and m = (high, low) in such digits.
  const Int exponent =
      ShiftRight(Bits(x), kMantissa) - Int::Of(kBias + kMantissa);
  const Int byte = ShiftRightArithmetic(exponent, 3);
  const Int hidden = Int::Of(int64_t{1} << kMantissa);
  Int m = (Bits(x) & (hidden - Int::Of(1))) | hidden;
  for (int shift = 1; shift <= 4; shift *= 2) {
    const Int bit = Int::Of(shift);
    m = Select(EqualInt(exponent & bit, bit), ShiftLeft(m, shift), m);
  }
  const Int low = m & mask, high = ShiftRight(m, kDigit);
  const auto digit = [&](int i) MICA_LANES_LAMBDA {
    return ToInt(
        Gather<F>(kTurnDigits<typename F::Element>.at,
                  byte + Int::Of(Digits::kBefore + i * Digits::kBytes)));
  };
  const auto place = [&](Int here, Int next, Int carry) MICA_LANES_LAMBDA {
    const Int a = low * here, b = high * next;
    const Int sum = (a & mask) + (b & mask) + carry;
    return Place<Int>{sum & mask, ShiftRight(a, kDigit) +
                                      ShiftRight(b, kDigit) +
                                      ShiftRight(sum, kDigit)};
  };
  const Int d1 = digit(1), d2 = digit(2), d3 = digit(3), d4 = digit(4);
  const Place<Int> fifth = place(d4, digit(5), Int::Of(0));
  const Place<Int> fourth = place(d3, d4, fifth.carry);
  const Place<Int> third = place(d2, d3, fourth.carry);
  const Place<Int> second = place(d1, d2, third.carry);
  const Place<Int> first = place(digit(0), d1, second.carry);
  return {first.digit, second.digit, third.digit, fourth.digit};
}

// Of x >= kUsualAngle, nan if it is infinite.
template <class F>
MICA_LANES Angle<F> FarAngle(F x) {
  using Int = typename F::Int;
  constexpr int kDigit = F::kIsDouble ? 32 : 16;
  constexpr double kPlace = F::kIsDouble ? 0x1p-32 : 0x1p-16;
  const Turns<F> turns = TurnsOf(x);
  // The nearest quarter leaves a rest of either sign.
  const Int quarters =
      ShiftRight(turns.first + Int::Of(int64_t{1} << (kDigit - 3)), kDigit - 2);
  const Int rest = turns.first - ShiftLeft(quarters, kDigit - 2);
  const Int minus = ShiftRightArithmetic(rest, 2 * kDigit - 1);
  const Int minus_digit = ShiftRight(minus, kDigit);
  const F first = ToFloat<F>(rest ^ minus);
  const F second = ToFloat<F>(turns.second ^ minus_digit);
  const F third = ToFloat<F>(turns.third ^ minus_digit);
  const F fourth = ToFloat<F>(turns.fourth ^ minus_digit);
  // Their sum as two floats, all of one sign, the smallest first.
  const F place = F::Of(kPlace);
  const F tail = Fma(fourth, place, third) * place;
  const F sum = second + tail;
  const F whole = Fma(sum, place, first);
  const F left =
      ((first - whole) + sum * place) + ((second - sum) + tail) * place;
  // Times pi/2 = pi_high + pi_low.
  const F pi_high = F::Of(F::kIsDouble ? 0x1.921fb54442d18p+2 * kPlace
                                       : 0x1.921fb6p+2 * kPlace);
  const F pi_low = F::Of(F::kIsDouble ? 0x1.1a62633145c07p-52 * kPlace
                                      : -0x1.777a5cp-23 * kPlace);
  const Int sign = minus & Int::Of(kSignBit<F>);
  const F high = whole * pi_high;
  F low = Fma(left, pi_high, whole * pi_low);
  if (F::Fuses()) low = low + Fma(whole, pi_high, -high);
  // Infinities have no difference.
  return {FromBits<F>(Bits(high) ^ sign) + (x - x),
          FromBits<F>(Bits(low) ^ sign), quarters};
}

// sin(high + low), one rounding of high and a little more.
template <class F>
MICA_LANES F SinOfRest(const Angle<F>& a) {
  const F z = a.high * a.high;
  F tail = F::Of(0);
  if constexpr (F::kIsDouble) {
    static constexpr double kSin[] = {
        -0.1666666666666663,   0.0083333333333220072,  -0.00019841269829496829,
        2.7557313588131751e-6, -2.5050742395624004e-8, 1.5895910238324105e-10};
    tail = Polynomial(z, kSin);
  } else {
    static constexpr double kSin[] = {-0.166666552, 0.00833215658,
                                      -0.000195146626};
    tail = Polynomial(z, kSin);
  }
  return a.high + Fma(a.high * z, tail, a.low);
}

// cos(high + low).
template <class F>
MICA_LANES F CosOfRest(const Angle<F>& a) {
  const F z = a.high * a.high, half = F::Of(0.5) * z;
  F tail = F::Of(0);
  if constexpr (F::kIsDouble) {
    static constexpr double kCos[] = {
        0.041666666666666595,   -0.00138888888888729,  2.4801587288751263e-5,
        -2.7557314149538186e-7, 2.0875696700094799e-9, -1.1358317244794896e-11};
    tail = Polynomial(z, kCos);
  } else {
    static constexpr double kCos[] = {0.0416666456, -0.00138873106,
                                      2.44324692e-5};
    tail = Polynomial(z, kCos);
  }
  const F one = F::Of(1), most = one - half;
  const F rounded_off = (one - most) - half;
  return most + Fma(z * z, tail, Fma(-a.high, a.low, rounded_off));
}

// fn(angle of |x|).
template <class F, class Fn>
MICA_LANES F OfAngle(F x, Fn fn) {
  const F size = Abs(x), limit = F::Of(kUsualAngle<F>);
  return IfAny(!LessEqual(size, limit), fn(UsualAngle(size)),
               [&]() MICA_LANES_LAMBDA {
                 // Lanes of usual angles are not looked at.
                 const F far = Select(Less(size, limit), limit, size);
                 return fn(FarAngle(far));
               });
}

template <class F>
MICA_LANES typename F::Mask IsOdd(typename F::Int i) {
  const auto one = F::Int::Of(1);
  return EqualInt(i & one, one);
}
// y, negative where bit 1 of i is set.
template <class F>
MICA_LANES F NegateByBit1(F y, typename F::Int i) {
  constexpr int kShift = F::kIsDouble ? 62 : 30;
  return FromBits<F>(Bits(y) ^ ShiftLeft(i & F::Int::Of(2), kShift));
}
// y with the other sign where x is negative.
template <class F>
MICA_LANES F NegateBySign(F y, F x) {
  return FromBits<F>(Bits(y) ^ (Bits(x) & F::Int::Of(kSignBit<F>)));
}

// sin and cos are at most 2 ulp from the exact value, huge angles' too.
template <class F>
MICA_LANES F Sin(F x) {
  const F y = OfAngle(x, [](const Angle<F>& a) MICA_LANES_LAMBDA {
    return NegateByBit1(
        Select(IsOdd<F>(a.quarters), CosOfRest(a), SinOfRest(a)), a.quarters);
  });
  return NegateBySign(y, x);
}

template <class F>
MICA_LANES F Cos(F x) {
  return OfAngle(x, [](const Angle<F>& a) MICA_LANES_LAMBDA {
    return NegateByBit1(
        Select(IsOdd<F>(a.quarters), SinOfRest(a), CosOfRest(a)),
        a.quarters + F::Int::Of(1));
  });
}

// At most 4 ulp.
template <class F>
MICA_LANES F Tan(F x) {
  const F y = OfAngle(x, [](const Angle<F>& a) MICA_LANES_LAMBDA {
    const F sin = SinOfRest(a), cos = CosOfRest(a);
    const auto odd = IsOdd<F>(a.quarters);
    return Select(odd, -cos, sin) / Select(odd, sin, cos);
  });
  return NegateBySign(y, x);
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_TRIGONOMETRIC_H_
