#include "framework/text/token_stream.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/text/literal.h"

namespace mica {
namespace {

// As in torch.
constexpr size_t kMaxRank = 64;
// Symbols live as long as the process, so that a text may not make many.
constexpr size_t kMaxSymbols = 10'000;

}  // namespace

Token TokenStream::Advance() {
  Token token = current_;
  current_ = lexer_.Next();
  return token;
}

bool TokenStream::Take(char punctuation) {
  if (!current_.Is(punctuation)) return false;
  Advance();
  return true;
}

absl::Status TokenStream::Expect(char punctuation) {
  if (Take(punctuation)) return absl::OkStatus();
  return Wants(absl::StrCat("'", std::string(1, punctuation), "'"));
}

absl::Status TokenStream::ExpectWord(absl::string_view word) {
  if (!current_.IsWord(word)) return Wants(absl::StrCat("'", word, "'"));
  Advance();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenStream::Unquote(const Token& token) const {
  std::optional<std::string> text = Unescape(token.text);
  if (text.has_value()) return *std::move(text);
  return ErrorAt(token.offset,
                 absl::StrCat("unknown escape in ", Describe(token)));
}

absl::StatusOr<std::string> TokenStream::ParseString(absl::string_view what) {
  if (current_.kind != TokenKind::kString) return Wants(what);
  return Unquote(Advance());
}

absl::StatusOr<std::string> TokenStream::ParseName() {
  if (current_.kind == TokenKind::kName) return std::string(Advance().text);
  if (current_.kind != TokenKind::kQuotedName) return Wants("a %name");
  const size_t offset = current_.offset;
  MICA_ASSIGN_OR_RETURN(std::string name, Unquote(Advance()));
  if (name.empty()) return ErrorAt(offset, "a value's name is empty");
  return name;
}

absl::StatusOr<Dim> TokenStream::ParseSymbol() {
  std::string name(current_.text);
  if (current_.kind == TokenKind::kString) {
    MICA_ASSIGN_OR_RETURN(name, Unquote(current_));
  }
  if (symbols_.insert(name).second && symbols_.size() > kMaxSymbols) {
    return ErrorAt(current_.offset,
                   absl::StrCat("more than ", kMaxSymbols, " symbols"));
  }
  Advance();
  return SymbolDim(name);
}

absl::StatusOr<Dim> TokenStream::ParseDim(absl::string_view what) {
  if (current_.kind == TokenKind::kWord ||
      current_.kind == TokenKind::kString) {
    return ParseSymbol();
  }
  if (current_.kind != TokenKind::kNumber) return Wants(what);
  const std::optional<int64_t> number = ParseInt(current_.text);
  // The lowest integers stand for symbols, or for nothing.
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  if (!number.has_value() || IsSymbol(*number) || *number == kLowest) {
    return Wants(what);
  }
  Advance();
  return *number;
}

absl::Status TokenStream::ParseDims(char open, char close, Dims* dims) {
  MICA_RETURN_IF_ERROR(Expect(open));
  while (!Take(close)) {
    if (!dims->empty()) MICA_RETURN_IF_ERROR(Expect(','));
    if (dims->size() == kMaxRank) {
      return ErrorAt(current_.offset,
                     absl::StrCat("more than ", kMaxRank, " dims"));
    }
    MICA_ASSIGN_OR_RETURN(Dim dim, ParseDim("a dim"));
    dims->push_back(dim);
  }
  return absl::OkStatus();
}

std::string TokenStream::TextFrom(size_t offset) const {
  const absl::string_view text = text_.substr(offset, current_.offset - offset);
  return absl::CHexEscape(
      absl::StripTrailingAsciiWhitespace(text.substr(0, 100)));
}

absl::StatusOr<TensorType> TokenStream::ParseType() {
  const size_t offset = current_.offset;
  const std::optional<DType> dtype = current_.kind == TokenKind::kWord
                                         ? ParseDType(current_.text)
                                         : std::nullopt;
  if (!dtype.has_value()) return Wants("a type, such as f32[2,3]");
  Advance();
  if (!current_.Is('[')) return ScalarType(*dtype);
  TensorType type{.dtype = *dtype};
  MICA_RETURN_IF_ERROR(ParseDims('[', ']', &type.dims));
  if (current_.Is('{')) {
    MICA_RETURN_IF_ERROR(ParseDims('{', '}', &type.strides));
    if (type.strides.size() != type.dims.size()) {
      return ErrorAt(offset,
                     absl::StrCat("wants ", type.rank(), " strides, got ",
                                  type.strides.size()));
    }
  }
  if (!HasLegalSize(type)) {
    return OpErrorAt(
        offset,
        absl::StrCat("wants sizes that are not negative and at most ",
                     kMaxTensorBytes, " bytes in all, got ", TextFrom(offset)));
  }
  return type;
}

absl::Status TokenStream::Wants(absl::string_view wanted) const {
  return OpErrorAt(current_.offset, absl::StrCat("wants ", wanted, ", got ",
                                                 Describe(current_)));
}

absl::Status TokenStream::OpErrorAt(size_t offset,
                                    absl::string_view message) const {
  return ErrorAt(offset, absl::StrCat(op_, op_.empty() ? "" : ": ", message));
}

absl::Status TokenStream::ErrorAt(size_t offset,
                                  absl::string_view message) const {
  return At(offset, absl::InvalidArgumentError(message));
}

absl::Status TokenStream::At(size_t offset, const absl::Status& status) const {
  if (status.ok()) return status;
  return Annotate(status, LineAndColumn(text_, offset));
}

}  // namespace mica
