// Emitted code against a plain evaluation, element by element.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/test_matchers.h"
#include "gtest/gtest.h"
#include "kernels/llvm/region_testing.h"

namespace mica::region {
namespace {

// An element while it is computed with: a float's value, or an int's.
struct Number {
  double f = 0;
  int64_t i = 0;
};

float FromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
uint32_t ToBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

double HalfValue(uint16_t half) {
  const int exponent = half >> 10 & 0x1f, digits = half & 0x3ff;
  const double size = exponent == 0x1f ? (digits != 0 ? NAN : INFINITY)
                      : exponent == 0
                          ? std::ldexp(digits, -24)
                          : std::ldexp(digits + 1024, exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

// To the nearest by trying: halves are in the order of their bits.
uint16_t NearestHalf(float x) {
  if (std::isnan(x)) return 0x7e00;
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(x);
  if (size >= 65520) return sign | 0x7c00;
  uint16_t low = 0, high = 0x7c00;
  while (high - low > 1) {
    const uint16_t mid = static_cast<uint16_t>((low + high) / 2);
    (HalfValue(mid) <= size ? low : high) = mid;
  }
  const double above = high == 0x7c00 ? 65536 : HalfValue(high);
  const double below = size - HalfValue(low), rest = above - size;
  const bool is_up = rest < below || (rest == below && low % 2 == 1);
  return sign | (is_up ? high : low);
}

uint16_t NearestBFloat(float x) {
  if (std::isnan(x)) return 0x7fc0;
  const uint32_t bits = ToBits(x);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
T Get(const char* p) {
  T x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

Number Read(const char* p, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {.f = Get<float>(p)};
    case DType::kF64:
      return {.f = Get<double>(p)};
    case DType::kF16:
      return {.f = HalfValue(Get<uint16_t>(p))};
    case DType::kBF16:
      return {.f = FromBits(uint32_t{Get<uint16_t>(p)} << 16)};
    case DType::kI64:
      return {.i = Get<int64_t>(p)};
    case DType::kI32:
      return {.i = Get<int32_t>(p)};
    case DType::kI16:
      return {.i = Get<int16_t>(p)};
    case DType::kI8:
      return {.i = Get<int8_t>(p)};
    case DType::kU8:
      return {.i = Get<uint8_t>(p)};
    default:
      return {.i = Get<uint8_t>(p) != 0};
  }
}

int64_t Wrapped(int64_t x, DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return static_cast<int32_t>(x);
    case DType::kI16:
      return static_cast<int16_t>(x);
    case DType::kI8:
      return static_cast<int8_t>(x);
    case DType::kU8:
      return static_cast<uint8_t>(x);
    case DType::kBool:
      return x != 0;
    default:
      return x;
  }
}

int64_t Truncated(double x, DType dtype) {
  const double limit = dtype == DType::kI64 ? 0x1p63 : 0x1p31;
  const bool fits =
      x > (dtype == DType::kI64 ? -0x1p63 - 1 : -0x1p31 - 1) && x < limit;
  const int64_t least = dtype == DType::kI64 ? INT64_MIN : INT32_MIN;
  return Wrapped(fits ? static_cast<int64_t>(x) : least, dtype);
}

Number Converted(Number x, DType from, DType to) {
  if (from == to) return x;
  if (to == DType::kBool) return {.i = IsFloating(from) ? x.f != 0 : x.i != 0};
  if (IsFloating(from)) {
    if (to == DType::kF64) return x;
    if (to == DType::kF32) return {.f = static_cast<float>(x.f)};
    return {.i = Truncated(x.f, to)};
  }
  if (to == DType::kF64) return {.f = static_cast<double>(x.i)};
  if (to == DType::kF32) return {.f = static_cast<float>(x.i)};
  return {.i = Wrapped(x.i, to)};
}

Number Rounded(Number x, DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {.f = HalfValue(NearestHalf(static_cast<float>(x.f)))};
    case DType::kBF16:
      return {.f = FromBits(uint32_t{NearestBFloat(static_cast<float>(x.f))}
                            << 16)};
    case DType::kF32:
      return {.f = static_cast<float>(x.f)};
    case DType::kF64:
      return x;
    default:
      return {.i = Wrapped(x.i, dtype)};
  }
}

// The few operators that say themselves what they are. A float's sum, product
// and quotient in double, rounded, is the float's own.
Number Applied(const RegionCode::Instruction& instruction,
               const std::vector<Number>& in) {
  const bool is_float = IsFloating(instruction.dtype);
  switch (instruction.op->id) {
    case RegionOpId::kCast:
      return in[0];
    case RegionOpId::kAdd:
      return {.f = in[0].f + in[1].f,
              .i = static_cast<int64_t>(static_cast<uint64_t>(in[0].i) +
                                        static_cast<uint64_t>(in[1].i))};
    case RegionOpId::kSub:
      return {.f = in[0].f - in[1].f,
              .i = static_cast<int64_t>(static_cast<uint64_t>(in[0].i) -
                                        static_cast<uint64_t>(in[1].i))};
    case RegionOpId::kMul:
      return {.f = in[0].f * in[1].f,
              .i = static_cast<int64_t>(static_cast<uint64_t>(in[0].i) *
                                        static_cast<uint64_t>(in[1].i))};
    case RegionOpId::kDiv:
      return {.f = in[0].f / in[1].f};
    case RegionOpId::kSqrt:
      return {.f = std::sqrt(in[0].f)};
    case RegionOpId::kLt:
      return {.i = is_float ? in[0].f < in[1].f : in[0].i < in[1].i};
    case RegionOpId::kMaximum:
      if (is_float) {
        return in[0].f >= in[1].f || std::isnan(in[0].f) ? in[0] : in[1];
      }
      return in[0].i >= in[1].i ? in[0] : in[1];
    case RegionOpId::kWhere:
      return in[0].i != 0 ? in[1] : in[2];
    default:
      ADD_FAILURE() << "no plain form of " << instruction.op->name;
      return {};
  }
}

// What the code gives for result `which` of an element, as a `to`.
Number Evaluate(const RegionCode& code, const std::vector<Number>& operands,
                const std::vector<Array>& arrays, int which, DType to) {
  using Kind = RegionCode::Ref::Kind;
  std::vector<Number> made;
  for (const RegionCode::Instruction& instruction : code.instructions) {
    std::vector<Number> in;
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      const RegionCode::Ref& ref = instruction.operands[k];
      const DType to = instruction.operand_dtype(static_cast<int>(k));
      if (ref.kind == Kind::kNumber) {
        in.push_back(Converted({.f = ref.number}, DType::kF64, to));
      } else if (ref.kind == Kind::kOperand) {
        in.push_back(Converted(operands[ref.index],
                               ComputeDType(arrays[ref.index].dtype), to));
      } else {
        in.push_back(Converted(
            made[ref.index],
            ComputeDType(code.instructions[ref.index].result_dtype()), to));
      }
    }
    const Number wide =
        Rounded(Applied(instruction, in),
                instruction.op->compares() ? DType::kBool
                                           : ComputeDType(instruction.dtype));
    made.push_back(Rounded(wide, instruction.result_dtype()));
  }
  const int last = code.results[which];
  return Rounded(Converted(made[last],
                           ComputeDType(code.instructions[last].result_dtype()),
                           ComputeDType(to)),
                 to);
}

// Bits that are often special: zeros, infinities, nans, denormals, limits.
void Fill(const Array& array, std::mt19937_64& random, char* p) {
  static constexpr double kFloats[] = {
      0.0,   -0.0,    1,        -1,        2.5, -3.75, 0.1,
      1e-8,  65519.5, 65520,    -7e4,      3e9, -3e9,  1e19,
      5e-39, -1e-45,  INFINITY, -INFINITY, NAN, 127.9, 255.5};
  const bool is_special = random() % 2 == 0;
  const double x = kFloats[random() % std::size(kFloats)];
  const uint64_t bits = random();
  const int64_t bytes = ElementBytes(array.dtype);
  std::memcpy(p, &bits, static_cast<size_t>(bytes));
  if (array.dtype == DType::kBool) *p = static_cast<char>(bits % 2);
  if (!is_special) return;
  if (array.dtype == DType::kF32) {
    const float narrow = static_cast<float>(x);
    std::memcpy(p, &narrow, sizeof(narrow));
  } else if (array.dtype == DType::kF64) {
    std::memcpy(p, &x, sizeof(x));
  } else if (array.dtype == DType::kF16) {
    const uint16_t half = NearestHalf(static_cast<float>(x));
    std::memcpy(p, &half, sizeof(half));
  }
}

bool IsSame(Number a, Number b, DType dtype) {
  if (!IsFloating(dtype)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) {
    return std::isnan(a.f) && std::isnan(b.f);
  }
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

// Runs code over random elements and compares; `shared` is an operand that the
// first result lies in, or -1.
void Check(const std::string& text, int64_t rows, int64_t n, int shared = -1) {
  MICA_ASSERT_OK_AND_ASSIGN(const Signature signature, ParseSignature(text));
  const int num_operands = static_cast<int>(signature.operands.size());
  for (const std::string& level : LevelsHere()) {
    SCOPED_TRACE(absl::StrCat(text, " at ", level, ", ", rows, " rows of ", n));
    // Of a text that is run in many sizes, once.
    static auto& codes = *new std::map<std::string, cpu::MachineCode>;
    cpu::MachineCode& code = codes[level + text];
    if (!code) {
      MICA_ASSERT_OK_AND_ASSIGN(code, CompileText(text, level));
    }
    Arrays arrays(signature, rows, n);
    if (shared >= 0) arrays.Share(num_operands, shared);
    std::mt19937_64 random(static_cast<uint64_t>(n * 71 + rows));
    std::vector<std::vector<Number>> operands;
    for (int64_t e = 0; e < rows * n; ++e) {
      operands.emplace_back();
      for (int k = 0; k < num_operands; ++k) {
        const Array& array = signature.operands[k];
        char* const p = arrays.At(k, e / n, e % n);
        if (array.access != Access::kOne || e % n == 0) Fill(array, random, p);
        operands.back().push_back(Read(p, array.dtype));
      }
    }
    std::vector<std::vector<char>> before;
    for (size_t k = 0; k < signature.results.size(); ++k) {
      before.push_back(arrays.bytes(num_operands + static_cast<int>(k)));
      if (!signature.results[k].is_used) {
        arrays.Leave(num_operands + static_cast<int>(k));
      }
    }
    code.entry<RegionFn>()(arrays.rows());
    for (size_t k = 0; k < signature.results.size(); ++k) {
      const Array& array = signature.results[k];
      if (!array.is_used) continue;
      const int index = num_operands + static_cast<int>(k);
      const int64_t bytes = ElementBytes(array.dtype);
      for (int64_t e = 0; e < rows * n; ++e) {
        char* const p = arrays.At(index, e / n, e % n);
        const Number got = Read(p, array.dtype);
        const Number want =
            Evaluate(signature.code, operands[e], signature.operands,
                     static_cast<int>(k), array.dtype);
        ASSERT_TRUE(IsSame(got, want, array.dtype))
            << "element " << e << " of result " << k << ": wants " << want.f
            << " or " << want.i << ", got " << got.f << " or " << got.i
            << "; operand 0 is " << operands[e][0].f << " or "
            << operands[e][0].i;
        std::memset(p, '\x5a', static_cast<size_t>(bytes));
      }
      // Nothing else was written.
      if (shared < 0 || k > 0) {
        EXPECT_EQ(arrays.bytes(index), before[k]);
      }
    }
  }
}

constexpr const char* kDTypes[] = {"f32", "f64", "bf16", "f16", "i64",
                                   "i32", "i16", "i8",   "u8",  "bool"};
constexpr const char* kAccesses[] = {"one", "dense", "strided"};

TEST(EmitterTest, HandlesEveryLengthAndRows) {
  for (int64_t n = 0; n <= 70; ++n) {
    Check("mul.f32 %0 2; add.f32 $0 %1 -> $1 | f32.dense f32.dense | f32.dense",
          n % 4, n);
    Check("add.bf16 %0 %1 -> $0 | bf16.dense bf16.strided | bf16.dense", 2, n);
    Check(
        "mul.bf16 %0 %1; add.bf16 $0 %2; maximum.bf16 $1 0 -> $2 $0 | "
        "bf16.dense bf16.one bf16.strided | bf16.dense bf16.strided",
        n % 4, n);
    Check("add.i8 %0 %1 -> $0 | i8.dense i8.one | i8.dense", 3, n);
    Check("add.f64 %0 %1 -> $0 | f64.dense f64.one | f64.strided", 1, n);
  }
}

TEST(EmitterTest, ConvertsEveryTypeToEveryOther) {
  for (const std::string from : kDTypes) {
    for (const std::string to : kDTypes) {
      Check(absl::StrCat("cast.", to, " %0 -> $0 | ", from, ".dense | ", to,
                         ".dense"),
            1, 203);
    }
  }
}

TEST(EmitterTest, ReadsAndWritesEveryTypeInEveryWay) {
  for (const std::string dtype : kDTypes) {
    for (const std::string first : kAccesses) {
      for (const std::string second : kAccesses) {
        for (const std::string result : {"dense", "strided"}) {
          Check(absl::StrCat("maximum.", dtype, " %0 %1 -> $0 | ", dtype, ".",
                             first, " ", dtype, ".", second, " | ", dtype, ".",
                             result),
                3, 37);
        }
      }
    }
  }
}

TEST(EmitterTest, ComputesInEveryType) {
  for (const std::string dtype : kDTypes) {
    if (dtype == "bool") continue;
    const std::string text =
        "add.T %0 %1; sub.T $0 %2; mul.T $1 %1; lt.T $2 %0; "
        "where.T $3 $1 %2; add.T $4 3 -> $5 $3 $2 | "
        "T.dense T.dense T.dense | T.dense bool.dense T.dense";
    Check(absl::StrReplaceAll(text, {{"T", dtype}}), 2, 67);
  }
  for (const std::string dtype : {"f32", "f64", "bf16", "f16"}) {
    const std::string text =
        "div.T %0 %1; sqrt.T $0 -> $0 $1 | T.dense T.dense | T.dense T.dense";
    Check(absl::StrReplaceAll(text, {{"T", dtype}}), 2, 67);
  }
}

TEST(EmitterTest, MixesTypes) {
  Check(
      "cast.f32 %0; add.bf16 $0 %1; mul.f64 $1 %2; cast.i32 $2; lt.i64 $3 %3; "
      "where.f16 $4 $1 %0 -> $5 $4 $2 | "
      "i8.dense f32.dense f64.one i64.strided | "
      "f16.dense bool.dense f64.strided",
      2, 45);
  // A result of another type than its instruction's.
  Check("add.f64 %0 1 -> $0 | f64.dense | bf16.dense", 1, 40);
}

TEST(EmitterTest, LeavesOutResultsThatNobodyReads) {
  Check(
      "add.f32 %0 1; mul.f32 $0 2 -> $0 $1 | f32.dense | f32.dense.unused "
      "f32.dense",
      2, 21);
}

TEST(EmitterTest, MayLieWhereAnOperandLies) {
  for (int64_t n : {3, 16, 64, 100}) {
    Check("mul.f32 %0 3; add.f32 $0 %1 -> $1 | f32.dense f32.dense | f32.dense",
          2, n, /*shared=*/1);
    Check("add.i32 %0 %1 -> $0 | f32.dense i32.strided | i32.strided", 2, n, 0);
    Check("cast.f16 %0 -> $0 | bf16.dense | f16.dense", 2, n, 0);
  }
}

TEST(EmitterTest, RefusesWhatIsNoSignature) {
  for (const std::string text :
       {"", "add.f32 %0 1 -> $0", "add.f32 %0 1 -> $0 | f32 | f32.dense",
        "add.f32 %0 %1 -> $0 | f32.dense | f32.dense",
        "add.f32 %0 1 -> $0 | f32.dense | c64.dense",
        "add.f32 %0 1 -> $0 | f32.dense | f32.dense f32.dense"}) {
    EXPECT_FALSE(CompileText(text, "v1").ok()) << text;
  }
  EXPECT_THAT(
      CompileText("add.f32 %0 1 -> $0 | f32.dense | f32.dense", "v2").status(),
      StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("v2")));
}

}  // namespace
}  // namespace mica::region
