#include "framework/text/literal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <system_error>

#include "absl/base/casts.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/tensor/half.h"

namespace mica {
namespace {

constexpr std::array<absl::string_view, 5> kReservedWords = {
    "none", "true", "false", "inf", "nan"};

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename T>
bool Store(T value, uint8_t* bytes) {
  std::memcpy(bytes, &value, sizeof(T));
  return true;
}

void AppendNan(uint64_t bits, uint64_t usual_bits, std::string* out) {
  if (bits == usual_bits) {
    out->append("nan");
  } else {
    absl::StrAppend(out, "nan(", absl::Hex(bits), ")");
  }
}

// The bits in "nan(…)"; nothing if it is not of that form.
std::optional<uint64_t> ParseNanBits(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "nan(") || !absl::ConsumeSuffix(&text, ")")) {
    return std::nullopt;
  }
  uint64_t bits = 0;
  const auto [end, error] =
      std::from_chars(text.begin(), text.end(), bits, /*base=*/16);
  if (error != std::errc() || end != text.end()) return std::nullopt;
  return bits;
}

// Finite numbers and infinities.
template <typename T>
void AppendReal(T value, std::string* out) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  const absl::string_view text(buffer, end - buffer);
  out->append(buffer, end);
  if (text.find_first_of(".en") == absl::string_view::npos) out->append(".0");
}

template <typename T>
bool ParseReal(absl::string_view text, T* value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (text == "inf" || text == "-inf") {
    *value = std::numeric_limits<T>::infinity() * (text[0] == '-' ? -1 : 1);
    return true;
  }
  if (text == "nan") {
    *value = std::numeric_limits<T>::quiet_NaN();
    return true;
  }
  // Keeps out what from_chars takes beyond our numbers: "infinity", "NAN(1)".
  if (text.find_first_not_of("0123456789+-.e") != absl::string_view::npos) {
    return false;
  }
  const auto result = std::from_chars(begin, end, *value);
  return result.ec == std::errc() && result.ptr == end;
}

template <typename Float, typename Bits>
bool ParseFloatElement(absl::string_view text, uint8_t* bytes) {
  if (const auto bits = ParseNanBits(text)) {
    return *bits <= std::numeric_limits<Bits>::max() &&
           std::isnan(absl::bit_cast<Float>(static_cast<Bits>(*bits))) &&
           Store(static_cast<Bits>(*bits), bytes);
  }
  Float value;
  return ParseReal(text, &value) && Store(value, bytes);
}

// `exponent_mask` has the bits that are all set in infinities and NaNs.
bool ParseHalfElement(absl::string_view text, uint16_t exponent_mask,
                      uint16_t usual_nan, uint16_t (*narrow)(float),
                      uint8_t* bytes) {
  if (const auto bits = ParseNanBits(text)) {
    return *bits <= 0xffff && (*bits & exponent_mask) == exponent_mask &&
           (*bits & 0x7fff) != exponent_mask &&
           Store(static_cast<uint16_t>(*bits), bytes);
  }
  float value;
  if (!ParseReal(text, &value)) return false;
  return Store(std::isnan(value) ? usual_nan : narrow(value), bytes);
}

template <typename T>
bool ParseIntElement(absl::string_view text, uint8_t* bytes) {
  T value;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && Store(value, bytes);
}

void AppendHalfElement(uint16_t bits, uint16_t exponent_mask,
                       uint16_t usual_nan, float (*widen)(uint16_t),
                       std::string* out) {
  if ((bits & exponent_mask) == exponent_mask &&
      (bits & 0x7fff) != exponent_mask) {
    AppendNan(bits, usual_nan, out);
  } else {
    AppendReal(widen(bits), out);
  }
}

void AppendF32(float value, std::string* out) {
  if (std::isnan(value)) {
    AppendNan(absl::bit_cast<uint32_t>(value), 0x7fc00000, out);
  } else {
    AppendReal(value, out);
  }
}

// `append(part)` writes each part.
template <typename T, typename Append>
void AppendParts(const std::complex<T>& value, Append append,
                 std::string* out) {
  out->append("complex(");
  append(value.real(), out);
  out->push_back(',');
  append(value.imag(), out);
  out->push_back(')');
}

// The two parts, each by the parser of `Float`.
template <typename Float, typename Bits>
bool ParseComplexElement(absl::string_view text, uint8_t* bytes) {
  if (!absl::ConsumePrefix(&text, "complex(") ||
      !absl::ConsumeSuffix(&text, ")")) {
    return false;
  }
  const size_t comma = text.find(',');
  return comma != absl::string_view::npos &&
         ParseFloatElement<Float, Bits>(text.substr(0, comma), bytes) &&
         ParseFloatElement<Float, Bits>(text.substr(comma + 1),
                                        bytes + sizeof(Float));
}

}  // namespace

void AppendComplex(std::complex<double> value, std::string* out) {
  AppendParts(value, AppendFloat, out);
}

void AppendFloat(double value, std::string* out) {
  if (std::isnan(value)) {
    AppendNan(
        absl::bit_cast<uint64_t>(value),
        absl::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN()),
        out);
  } else {
    AppendReal(value, out);
  }
}

void AppendElement(DType dtype, const uint8_t* bytes, std::string* out) {
  switch (dtype) {
    case DType::kBool:
      out->append(*bytes ? "true" : "false");
      return;
    case DType::kU8:
      absl::StrAppend(out, static_cast<int>(*bytes));
      return;
    case DType::kI8:
      absl::StrAppend(out, static_cast<int>(Load<int8_t>(bytes)));
      return;
    case DType::kI16:
      absl::StrAppend(out, Load<int16_t>(bytes));
      return;
    case DType::kI32:
      absl::StrAppend(out, Load<int32_t>(bytes));
      return;
    case DType::kI64:
      absl::StrAppend(out, Load<int64_t>(bytes));
      return;
    case DType::kF16:
      AppendHalfElement(Load<uint16_t>(bytes), 0x7c00, 0x7e00, HalfToFloat,
                        out);
      return;
    case DType::kBF16:
      AppendHalfElement(Load<uint16_t>(bytes), 0x7f80, 0x7fc0, BFloat16ToFloat,
                        out);
      return;
    case DType::kF32:
      AppendF32(Load<float>(bytes), out);
      return;
    case DType::kF64:
      AppendFloat(Load<double>(bytes), out);
      return;
    case DType::kC64:
      AppendParts(Load<std::complex<float>>(bytes), AppendF32, out);
      return;
    case DType::kC128:
      AppendComplex(Load<std::complex<double>>(bytes), out);
      return;
  }
}

void AppendQuoted(absl::string_view text, std::string* out) {
  out->push_back('"');
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (absl::ascii_iscntrl(c)) {
      absl::StrAppend(out, "\\x", absl::Hex(c, absl::kZeroPad2));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

bool IsWord(absl::string_view text) {
  if (text.empty() || !(absl::ascii_isalpha(text[0]) || text[0] == '_')) {
    return false;
  }
  for (char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '.') return false;
  }
  return true;
}

bool IsReservedWord(absl::string_view word) {
  return std::find(std::begin(kReservedWords), std::end(kReservedWords),
                   word) != std::end(kReservedWords);
}

void AppendSymbol(absl::string_view name, std::string* out) {
  if (IsWord(name) && !IsReservedWord(name) && !ParseDType(name).has_value()) {
    out->append(name.data(), name.size());
  } else {
    AppendQuoted(name, out);
  }
}

std::optional<int64_t> ParseInt(absl::string_view text) {
  int64_t value;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> ParseFloat(absl::string_view text) {
  uint8_t bytes[sizeof(double)];
  if (!ParseFloatElement<double, uint64_t>(text, bytes)) return std::nullopt;
  return Load<double>(bytes);
}

std::optional<std::complex<double>> ParseComplex(absl::string_view text) {
  uint8_t bytes[sizeof(std::complex<double>)];
  if (!ParseComplexElement<double, uint64_t>(text, bytes)) return std::nullopt;
  return Load<std::complex<double>>(bytes);
}

bool ParseElement(DType dtype, absl::string_view text, uint8_t* bytes) {
  switch (dtype) {
    case DType::kBool:
      *bytes = text == "true";
      return text == "true" || text == "false";
    case DType::kU8:
      return ParseIntElement<uint8_t>(text, bytes);
    case DType::kI8:
      return ParseIntElement<int8_t>(text, bytes);
    case DType::kI16:
      return ParseIntElement<int16_t>(text, bytes);
    case DType::kI32:
      return ParseIntElement<int32_t>(text, bytes);
    case DType::kI64:
      return ParseIntElement<int64_t>(text, bytes);
    case DType::kF16:
      return ParseHalfElement(text, 0x7c00, 0x7e00, FloatToHalf, bytes);
    case DType::kBF16:
      return ParseHalfElement(text, 0x7f80, 0x7fc0, FloatToBFloat16, bytes);
    case DType::kF32:
      return ParseFloatElement<float, uint32_t>(text, bytes);
    case DType::kF64:
      return ParseFloatElement<double, uint64_t>(text, bytes);
    case DType::kC64:
      return ParseComplexElement<float, uint32_t>(text, bytes);
    case DType::kC128:
      return ParseComplexElement<double, uint64_t>(text, bytes);
  }
  return false;
}

std::optional<std::string> Unescape(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out.push_back(text[i]);
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    switch (text[i]) {
      case 'n':
        out.push_back('\n');
        break;
      case 't':
        out.push_back('\t');
        break;
      case '"':
      case '\\':
        out.push_back(text[i]);
        break;
      case 'x': {
        if (i + 2 >= text.size()) return std::nullopt;
        uint8_t byte = 0;
        const char* digits = text.data() + i + 1;
        const auto result =
            std::from_chars(digits, digits + 2, byte, /*base=*/16);
        if (result.ec != std::errc() || result.ptr != digits + 2) {
          return std::nullopt;
        }
        out.push_back(static_cast<char>(byte));
        i += 2;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return out;
}

}  // namespace mica
