#include "framework/text/literal.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "absl/base/casts.h"
#include "framework/base/same_bits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

std::string FloatText(double value) {
  std::string text;
  AppendFloat(value, &text);
  return text;
}

std::string ElementText(DType dtype, const uint8_t* bytes) {
  std::string text;
  AppendElement(dtype, bytes, &text);
  return text;
}

std::string Quoted(absl::string_view text) {
  std::string out;
  AppendQuoted(text, &out);
  return out;
}

TEST(LiteralTest, PrintsFloatsShortestAndApartFromInts) {
  EXPECT_EQ(FloatText(1), "1.0");
  EXPECT_EQ(FloatText(-0.0), "-0.0");
  EXPECT_EQ(FloatText(0.1), "0.1");
  EXPECT_EQ(FloatText(1e-5), "1e-05");
  EXPECT_EQ(FloatText(1e300), "1e+300");
  EXPECT_EQ(FloatText(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(FloatText(std::nan("")), "nan");
  EXPECT_EQ(FloatText(absl::bit_cast<double>(0xfff8000000000000u)),
            "nan(fff8000000000000)");
}

TEST(LiteralTest, ReadsBackEveryBitOfRandomFloats) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bits = random();
    const std::string text = FloatText(absl::bit_cast<double>(bits));
    const auto value = ParseFloat(text);
    ASSERT_TRUE(value.has_value()) << text;
    ASSERT_EQ(absl::bit_cast<uint64_t>(*value), bits) << text;
  }
}

// Every 16-bit pattern, and random ones of the wider types.
TEST(LiteralTest, ReadsBackEveryBitOfElements) {
  std::mt19937_64 random(7);
  for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
    for (uint64_t i = 0; i < 65'536; ++i) {
      const DType type = static_cast<DType>(dtype);
      uint64_t bits = ElementBytes(type) <= 2 ? i : random();
      if (type == DType::kBool) bits &= 1;
      uint8_t bytes[16];
      uint8_t back[16];
      std::memcpy(bytes, &bits, 8);
      bits = random();
      std::memcpy(bytes + 8, &bits, 8);
      const std::string text = ElementText(type, bytes);
      ASSERT_TRUE(ParseElement(type, text, back)) << text;
      ASSERT_EQ(std::memcmp(bytes, back, ElementBytes(type)), 0) << text;
    }
  }
}

TEST(LiteralTest, WritesComplexNumbersByTheirParts) {
  std::string text;
  AppendComplex({1.0, -0.0}, &text);
  EXPECT_EQ(text, "complex(1.0,-0.0)");
  const std::complex<float> parts[] = {{0.1f, -INFINITY}};
  EXPECT_EQ(ElementText(DType::kC64, reinterpret_cast<const uint8_t*>(parts)),
            "complex(0.1,-inf)");
  const std::complex<double> want(absl::bit_cast<double>(0x7ff8000000000001u),
                                  1e300);
  text.clear();
  AppendComplex(want, &text);
  EXPECT_EQ(text, "complex(nan(7ff8000000000001),1e+300)");
  const auto back = ParseComplex(text);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(SameBits(*back, want));
  for (const char* bad :
       {"complex(1.0)", "complex(1.0,2.0", "1.0,2.0", "complex(1.0,2.0,3.0)",
        "complex(1.0, 2.0)", "complex(,)", "complex(true,0.0)", "complex"}) {
    EXPECT_FALSE(ParseComplex(bad).has_value()) << bad;
  }
}

TEST(LiteralTest, RefusesElementsOutOfRange) {
  uint8_t bytes[16];
  EXPECT_FALSE(ParseElement(DType::kU8, "256", bytes));
  EXPECT_FALSE(ParseElement(DType::kU8, "-1", bytes));
  EXPECT_FALSE(ParseElement(DType::kI64, "9223372036854775808", bytes));
  EXPECT_FALSE(ParseElement(DType::kI64, "1.0", bytes));
  EXPECT_FALSE(ParseElement(DType::kBool, "1", bytes));
  EXPECT_FALSE(ParseElement(DType::kF32, "1e99", bytes));
  EXPECT_FALSE(ParseElement(DType::kF32, "infinity", bytes));
  EXPECT_FALSE(ParseElement(DType::kF32, "nan(0)", bytes));
  EXPECT_FALSE(ParseElement(DType::kF32, "nan(17fc00000)", bytes));
  EXPECT_FALSE(ParseElement(DType::kF16, "nan(7c00)", bytes));
  EXPECT_FALSE(ParseElement(DType::kF32, "", bytes));
  EXPECT_FALSE(ParseElement(DType::kF32, "1.0.0", bytes));
  EXPECT_FALSE(ParseElement(DType::kC64, "1.0", bytes));
  EXPECT_FALSE(ParseElement(DType::kC64, "complex(1.0,1e99)", bytes));
}

TEST(LiteralTest, RoundsHalvesToNearestEven) {
  auto parse = [](absl::string_view text) {
    uint16_t bits = 0;
    uint8_t bytes[8];
    EXPECT_TRUE(ParseElement(DType::kF16, text, bytes)) << text;
    std::memcpy(&bits, bytes, 2);
    return bits;
  };
  EXPECT_EQ(parse("1.0"), 0x3c00);
  EXPECT_EQ(parse("65504.0"), 0x7bff);
  EXPECT_EQ(parse("65519.0"), 0x7bff);
  EXPECT_EQ(parse("65520.0"), 0x7c00);
  EXPECT_EQ(parse("2049.0"), 0x6800);
  EXPECT_EQ(parse("2051.0"), 0x6802);
  EXPECT_EQ(parse("1e-30"), 0);
  EXPECT_EQ(parse("-6e-08"), 0x8001);
}

TEST(LiteralTest, EscapesWhatWouldEndOrHideAString) {
  EXPECT_EQ(Quoted("a\"b\\c\nd\te\x01\x7f"),
            "\"a\\\"b\\\\c\\nd\\te\\x01\\x7f\"");
  EXPECT_EQ(Quoted("π"), "\"π\"");
  EXPECT_EQ(Unescape("a\\\"b\\\\c\\nd\\te\\x01\\x7f"), "a\"b\\c\nd\te\x01\x7f");
  EXPECT_EQ(Unescape("\\q"), std::nullopt);
  EXPECT_EQ(Unescape("\\"), std::nullopt);
  EXPECT_EQ(Unescape("\\x1"), std::nullopt);
  EXPECT_EQ(Unescape("\\x+1"), std::nullopt);
}

TEST(LiteralTest, QuotesSymbolsThatWouldMeanSomethingElse) {
  auto symbol = [](absl::string_view name) {
    std::string out;
    AppendSymbol(name, &out);
    return out;
  };
  EXPECT_EQ(symbol("batch"), "batch");
  EXPECT_EQ(symbol("none"), "\"none\"");
  EXPECT_EQ(symbol("2b"), "\"2b\"");
  EXPECT_EQ(symbol(""), "\"\"");
}

}  // namespace
}  // namespace mica
