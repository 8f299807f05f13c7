// What every kernel's source begins with.

#include "kernels/cuda/source.h"

namespace mica::cuda {

absl::string_view Prelude() {
  return R"cuda(
struct boolean { unsigned char value; };
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

__device__ __forceinline__ float infinity() {
  return __int_as_float(0x7f800000);
}
__device__ __forceinline__ float not_a_number() {
  return __int_as_float(0x7fc00000);
}

template <typename T>
__device__ __forceinline__ T get(T x) { return x; }
__device__ __forceinline__ bool get(boolean x) { return x.value != 0; }
__device__ __forceinline__ float get(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ float get(bf16 x) {
  return __uint_as_float((unsigned)x.bits << 16);
}

template <typename T> struct is_real { static const bool value = false; };
template <> struct is_real<float> { static const bool value = true; };
template <> struct is_real<double> { static const bool value = true; };
template <typename T> struct is_element_real {
  static const bool value = is_real<T>::value;
};
template <> struct is_element_real<f16> { static const bool value = true; };
template <> struct is_element_real<bf16> { static const bool value = true; };

// Floats out of an integer's range become the smallest one.
template <typename T, typename F>
struct Put {
  static __device__ __forceinline__ T from(F x) {
    if constexpr (is_real<F>::value && !is_real<T>::value) {
      return x >= (F)-9223372036854775808.0 && x < (F)9223372036854775808.0
                 ? (T)(long long)x
                 : (T)(-9223372036854775807LL - 1);
    } else {
      return (T)x;
    }
  }
};
template <typename F>
struct Put<boolean, F> {
  static __device__ __forceinline__ boolean from(F x) {
    return {(unsigned char)(x != 0)};
  }
};
template <typename F>
struct Put<f16, F> {
  static __device__ __forceinline__ f16 from(F x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"((float)x));
    return y;
  }
};
template <typename F>
struct Put<bf16, F> {
  static __device__ __forceinline__ bf16 from(F x) {
    const float real = (float)x;
    const unsigned bits = __float_as_uint(real);
    if (real != real) return {(unsigned short)0x7fc0};
    return {(unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
};
template <typename T, typename F>
__device__ __forceinline__ T put(F x) { return Put<T, F>::from(x); }

// Elements that follow each other, moved as one where their address allows it.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec { T at[N]; };
template <int N, typename T>
__device__ __forceinline__ Vec<T, N> load_vec(const T* from, bool is_aligned) {
  if (is_aligned) return *(const Vec<T, N>*)from;
  Vec<T, N> v;
#pragma unroll
  for (int i = 0; i < N; ++i) v.at[i] = from[i];
  return v;
}
template <int N, typename T>
__device__ __forceinline__ void store_vec(T* to, const Vec<T, N>& v,
                                          bool is_aligned) {
  if (is_aligned) {
    *(Vec<T, N>*)to = v;
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = v.at[i];
}

template <typename T>
__device__ __forceinline__ bool is_nan(T x) { return x != x; }
template <typename T>
__device__ __forceinline__ T larger(T a, T b) {
  if (is_nan(a)) return a;
  return is_nan(b) || b > a ? b : a;
}
template <typename T>
__device__ __forceinline__ T smaller(T a, T b) {
  if (is_nan(a)) return a;
  return is_nan(b) || b < a ? b : a;
}
__device__ __forceinline__ float magnitude(float a) { return fabsf(a); }
__device__ __forceinline__ double magnitude(double a) { return fabs(a); }
__device__ __forceinline__ long long magnitude(long long a) {
  return a < 0 ? -a : a;
}
template <typename T>
__device__ __forceinline__ T floor_of(T a) {
  if constexpr (is_real<T>::value) return floor(a); else return a;
}
template <typename T>
__device__ __forceinline__ T ceil_of(T a) {
  if constexpr (is_real<T>::value) return ceil(a); else return a;
}
template <typename T>
__device__ __forceinline__ T trunc_of(T a) {
  if constexpr (is_real<T>::value) return trunc(a); else return a;
}
template <typename T>
__device__ __forceinline__ T round_of(T a) {
  if constexpr (is_real<T>::value) return rint(a); else return a;
}
template <typename T>
__device__ __forceinline__ T quotient(T a, T b) {
  if constexpr (is_real<T>::value) return a / b; else return 0;
}
template <typename T>
__device__ __forceinline__ T truncated_quotient(T a, T b) {
  if constexpr (is_real<T>::value) return trunc(a / b);
  else return b == -1 ? -a : a / b;
}
template <typename T>
__device__ __forceinline__ T truncated_remainder(T a, T b) {
  if constexpr (is_real<T>::value) return fmod(a, b);
  else return b == -1 ? 0 : a % b;
}
template <typename T>
__device__ __forceinline__ T floored_remainder(T a, T b) {
  const T rest = truncated_remainder(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
template <typename T>
__device__ __forceinline__ T floored_quotient(T a, T b) {
  if constexpr (is_real<T>::value) {
    if (b == 0) return a / b;
    const T rest = fmod(a, b);
    T q = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) q -= 1;
    if (q == 0) return copysign((T)0, a / b);
    const T floored = floor(q);
    return q - floored > (T)0.5 ? floored + 1 : floored;
  } else {
    const T q = truncated_quotient(a, b);
    return floored_remainder(a, b) != truncated_remainder(a, b) ? q - 1 : q;
  }
}
template <typename T>
__device__ __forceinline__ T power(T base, T exponent) {
  if constexpr (is_real<T>::value) {
    return pow(base, exponent);
  } else {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
    T result = 1;
    for (; exponent > 0; exponent /= 2) {
      if (exponent % 2 == 1) result *= base;
      base *= base;
    }
    return result;
  }
}
template <typename T>
__device__ __forceinline__ T power_of(T base, T exponent) {
  if constexpr (is_real<T>::value) {
    if (exponent == (T)0.5) return sqrt(base);
    if (exponent == (T)-0.5) return 1 / sqrt(base);
  }
  return power(base, exponent);
}
__device__ __forceinline__ bool inverted(bool x) { return !x; }
__device__ __forceinline__ long long inverted(long long x) { return ~x; }
// By the recurrence up to where the asymptotic series holds; what is negative
// is reflected.
__device__ __forceinline__ double digamma(double x) {
  if (x == 0) return copysign((double)infinity(), -x);
  double sum = 0;
  if (x < 0) {
    if (x == trunc(x)) return not_a_number();
    const double pi = 3.14159265358979323846;
    sum = -pi / tan(pi * (x - trunc(x)));
    x = 1 - x;
  }
  for (; x < 12; x += 1) sum -= 1 / x;
  const double y = 1 / (x * x);
  return sum + log(x) - 0.5 / x -
         y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 -
         y * (1.0 / 132 - y * 691.0 / 32760)))));
}
template <typename T>
__device__ __forceinline__ T sigmoid(T x) { return 1 / (1 + exp(-x)); }
template <typename T>
__device__ __forceinline__ T relu6(T x) {
  return smaller(larger(x, (T)0), (T)6);
}
template <typename T>
__device__ __forceinline__ T gelu_erf(T x) {
  return x * (1 + erf(x * (T)0.70710678118654752440)) / 2;
}
template <typename T>
__device__ __forceinline__ T gelu_tanh(T x) {
  const T scaled =
      (T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x);
  return x * (1 + tanh(scaled)) / 2;
}
__device__ __forceinline__ long long bits_of(float x) { return (long long)x; }
__device__ __forceinline__ long long bits_of(double x) { return (long long)x; }
__device__ __forceinline__ long long bits_of(long long x) { return x; }
__device__ __forceinline__ long long shifted_left(long long x, long long by) {
  return by < 0 || by > 63 ? 0 : (long long)((unsigned long long)x << by);
}
__device__ __forceinline__ long long shifted_right(long long x, long long by) {
  return x >> (by < 0 || by > 63 ? 63 : by);
}
template <typename T>
__device__ __forceinline__ T log_add_exp(T a, T b) {
  if (a == b && isinf(a)) return a;
  return larger(a, b) + log1p(exp(-fabs(a - b)));
}
template <typename T>
__device__ __forceinline__ T lerp(T a, T b, T weight) {
  const T way = b - a;
  return fabs(weight) < (T)0.5 ? a + weight * way : b - way * (1 - weight);
}
)cuda";
}

}  // namespace mica::cuda
