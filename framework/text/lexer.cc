#include "framework/text/lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mica {
namespace {

bool IsWordByte(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.';
}

// Within "complex(1.0,-2e+05)".
bool IsPartByte(char c) {
  return IsWordByte(c) || absl::StrContains("+-,()", c);
}

// The end of the longest run of bytes from `begin` on that `is_in` takes.
template <typename Predicate>
size_t RunEnd(absl::string_view text, size_t begin, Predicate is_in) {
  while (begin < text.size() && is_in(text[begin])) ++begin;
  return begin;
}

}  // namespace

std::string Describe(const Token& token) {
  constexpr size_t kLongest = 60;
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the text";
    case TokenKind::kName:
    case TokenKind::kQuotedName:
      return absl::StrCat("%",
                          absl::CHexEscape(token.text.substr(0, kLongest)));
    case TokenKind::kString:
      return absl::StrCat(
          "\"", absl::CHexEscape(token.text.substr(0, kLongest)), "\"");
    default:
      return absl::StrCat("'", absl::CHexEscape(token.text.substr(0, kLongest)),
                          "'");
  }
}

std::string LineAndColumn(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_end = before.rfind('\n');
  const size_t column = line_end == absl::string_view::npos
                            ? before.size() + 1
                            : before.size() - line_end;
  return absl::StrCat(line, ":", column);
}

void Lexer::SkipBlank() {
  while (true) {
    offset_ = RunEnd(text_, offset_, absl::ascii_isspace);
    if (!absl::StartsWith(text_.substr(offset_), "//")) return;
    offset_ = RunEnd(text_, offset_, [](char c) { return c != '\n'; });
  }
}

Token Lexer::Make(TokenKind kind, size_t begin, size_t size) const {
  return {.kind = kind, .text = text_.substr(begin, size), .offset = begin};
}

// A string whose opening quote is at `quote`; `begin` is the token's.
Token Lexer::LexString(TokenKind kind, size_t begin, size_t quote) {
  size_t end = quote + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    end += text_[end] == '\\' ? 2 : 1;
  }
  if (end >= text_.size() || text_[end] != '"') {
    return Make(TokenKind::kError, begin, text_.size() - begin);
  }
  Token token = Make(kind, quote + 1, end - quote - 1);
  token.offset = begin;
  offset_ = end + 1;
  return token;
}

Token Lexer::LexNumber(size_t begin) {
  // A sign belongs to a number at its beginning and after the "e".
  size_t end = begin + 1;
  while (end < text_.size() &&
         (IsWordByte(text_[end]) || ((text_[end] == '-' || text_[end] == '+') &&
                                     text_[end - 1] == 'e'))) {
    ++end;
  }
  offset_ = end;
  return Make(TokenKind::kNumber, begin, end - begin);
}

Token Lexer::Next() {
  SkipBlank();
  const size_t begin = offset_;
  if (begin == text_.size()) return Make(TokenKind::kEnd, begin, 0);
  const char first = text_[begin];
  if (absl::ascii_isalpha(first) || first == '_') {
    size_t end = RunEnd(text_, begin, IsWordByte);
    TokenKind kind = TokenKind::kWord;
    if (absl::StartsWith(text_.substr(begin), "nan(")) {
      const size_t close = RunEnd(text_, end + 1, absl::ascii_isxdigit);
      if (close < text_.size() && text_[close] == ')') {
        kind = TokenKind::kNumber;
        end = close + 1;
      }
    } else if (absl::StartsWith(text_.substr(begin), "complex(")) {
      // To the parenthesis that closes it; a NaN in it may have its own.
      size_t close = end + 1;
      for (int depth = 1; close < text_.size() && IsPartByte(text_[close]);
           ++close) {
        depth += text_[close] == '(' ? 1 : text_[close] == ')' ? -1 : 0;
        if (depth > 0) continue;
        kind = TokenKind::kNumber;
        end = close + 1;
        break;
      }
    }
    offset_ = end;
    return Make(kind, begin, end - begin);
  }
  if (first == '%') {
    if (begin + 1 < text_.size() && text_[begin + 1] == '"') {
      return LexString(TokenKind::kQuotedName, begin, begin + 1);
    }
    const size_t end = RunEnd(text_, begin + 1, IsWordByte);
    if (end == begin + 1) return Make(TokenKind::kError, begin, 1);
    offset_ = end;
    Token token = Make(TokenKind::kName, begin + 1, end - begin - 1);
    token.offset = begin;
    return token;
  }
  if (first == '"') return LexString(TokenKind::kString, begin, begin);
  if (absl::ascii_isdigit(first) || first == '-') return LexNumber(begin);
  if (absl::StrContains("(){}[],:=@", first)) {
    ++offset_;
    return Make(TokenKind::kPunctuation, begin, 1);
  }
  return Make(TokenKind::kError, begin, 1);
}

}  // namespace mica
