// Cuts the text form into tokens.

#ifndef MICA_FRAMEWORK_TEXT_LEXER_H_
#define MICA_FRAMEWORK_TEXT_LEXER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace mica {

enum class TokenKind : uint8_t {
  kEnd,
  kError,        // A byte that begins no token, or a string without an end.
  kWord,         // aten.mm, return, f32, batch
  kName,         // %h: `text` is without the "%"
  kQuotedName,   // %"odd name": `text` is what stands between the quotes
  kString,       // "fc.weight": likewise, escapes untouched
  kNumber,       // 12, -3, 1.5e-05, -inf, nan(7fc00001)
  kPunctuation,  // one of (){}[],:=@
};

// A piece of the text, valid as long as the text.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  absl::string_view text;
  size_t offset = 0;

  bool Is(char punctuation) const {
    return kind == TokenKind::kPunctuation && text[0] == punctuation;
  }
  bool IsWord(absl::string_view word) const {
    return kind == TokenKind::kWord && text == word;
  }
};

// "end of text", "'aten.mm'": how errors name a token.
std::string Describe(const Token& token);

// Gives the tokens of `text` from `offset` on, skipping white space and
// comments ("//" to the end of the line). After kEnd and kError it stays.
// `text` must outlive the Lexer. Any bytes are legal.
class Lexer {
 public:
  explicit Lexer(absl::string_view text, size_t offset = 0)
      : text_(text), offset_(offset) {}
  Token Next();

 private:
  void SkipBlank();
  Token Make(TokenKind kind, size_t begin, size_t size) const;
  Token LexString(TokenKind kind, size_t begin, size_t quote);
  Token LexNumber(size_t begin);

  absl::string_view text_;
  size_t offset_;
};

// "3:17", both from 1. Linear in `offset`.
std::string LineAndColumn(absl::string_view text, size_t offset);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_LEXER_H_
