// Numbers, strings and names of the text form: each Append… writes the one
// canonical spelling, and the Parse… of the same kind reads it back bit for
// bit.

#ifndef MICA_FRAMEWORK_TEXT_LITERAL_H_
#define MICA_FRAMEWORK_TEXT_LITERAL_H_

#include <complex>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/tensor/dtype.h"

namespace mica {

// The shortest decimal that reads back to `value`, always with a point or an
// exponent; "inf", "-inf", "nan"; "nan(7ff8000000000001)" for other NaN bits.
void AppendFloat(double value, std::string* out);

// "complex(1.0,-inf)": the parts as AppendFloat writes them.
void AppendComplex(std::complex<double> value, std::string* out);

// One element of a constant, of which `bytes` holds ElementBytes(dtype).
void AppendElement(DType dtype, const uint8_t* bytes, std::string* out);

// `text` in quotes: control characters, quotes and backslashes are escaped,
// all else, bytes above 127 too, stands for itself.
void AppendQuoted(absl::string_view text, std::string* out);

// True for letters, digits, "_" and ".", beginning with a letter or "_".
bool IsWord(absl::string_view text);
// Such as "none", which is no symbol.
bool IsReservedWord(absl::string_view word);
// A symbol's name: a word, in quotes if it is none or means something else.
void AppendSymbol(absl::string_view name, std::string* out);

// Each returns nothing if `text` is not wholly such a number or out of range.
std::optional<int64_t> ParseInt(absl::string_view text);
std::optional<double> ParseFloat(absl::string_view text);
std::optional<std::complex<double>> ParseComplex(absl::string_view text);
// Writes ElementBytes(dtype) to `bytes`.
bool ParseElement(DType dtype, absl::string_view text, uint8_t* bytes);

// Inverse of AppendQuoted, given what stands between the quotes; nothing if an
// escape is unknown.
std::optional<std::string> Unescape(absl::string_view text);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_LITERAL_H_
