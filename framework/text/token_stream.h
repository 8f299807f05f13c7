// A text as a row of tokens, with what every part of the parser asks of it.

#ifndef MICA_FRAMEWORK_TEXT_TOKEN_STREAM_H_
#define MICA_FRAMEWORK_TEXT_TOKEN_STREAM_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/tensor_type.h"
#include "framework/text/lexer.h"

namespace mica {

// Looks one token ahead. Errors say line and column, the op at hand, what was
// wanted and what came. Single-thread; `text` must outlive it.
class TokenStream {
 public:
  explicit TokenStream(absl::string_view text) : text_(text), lexer_(text) {
    Advance();
  }

  const Token& current() const { return current_; }
  // The token after the current one. Lexes it anew each time.
  Token PeekNext() const { return Lexer(lexer_).Next(); }
  // Goes on with the token that begins at `offset` or behind.
  void GoTo(size_t offset) {
    lexer_ = LexerAt(offset);
    current_ = lexer_.Next();
  }
  // Tokens of the same text from `offset` on.
  Lexer LexerAt(size_t offset) const { return Lexer(text_, offset); }
  bool IsAtName() const {
    return current_.kind == TokenKind::kName ||
           current_.kind == TokenKind::kQuotedName;
  }

  // Steps on and returns the token that was the current one.
  Token Advance();
  bool Take(char punctuation);
  absl::Status Expect(char punctuation);
  absl::Status ExpectWord(absl::string_view word);

  // `what` tells in an error what the string would have been.
  absl::StatusOr<std::string> ParseString(absl::string_view what);
  // A value's name, which is not empty.
  absl::StatusOr<std::string> ParseName();
  // An integer or a symbol.
  absl::StatusOr<Dim> ParseDim(absl::string_view what);
  // A type of legal size.
  absl::StatusOr<TensorType> ParseType();
  absl::StatusOr<std::string> Unquote(const Token& token) const;

  // The op that errors name from now on; empty for none. Must stay alive.
  void set_op(absl::string_view op) { op_ = op; }
  // InvalidArgument that tells the current token from what was wanted.
  absl::Status Wants(absl::string_view wanted) const;
  absl::Status ErrorAt(size_t offset, absl::string_view message) const;
  // The same, naming the op at hand.
  absl::Status OpErrorAt(size_t offset, absl::string_view message) const;
  // `status`, which names its op itself, with the place before the message.
  absl::Status At(size_t offset, const absl::Status& status) const;

 private:
  absl::StatusOr<Dim> ParseSymbol();
  // The text from `offset` to the current token, cut if it is long.
  std::string TextFrom(size_t offset) const;
  absl::Status ParseDims(char open, char close, Dims* dims);

  const absl::string_view text_;
  Lexer lexer_;
  Token current_;
  absl::string_view op_;
  absl::flat_hash_set<std::string> symbols_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_TOKEN_STREAM_H_
