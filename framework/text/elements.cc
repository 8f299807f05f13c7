#include "framework/text/elements.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/text/literal.h"

namespace mica {

absl::Status SkipElement(TokenStream& tokens) {
  if (tokens.current().kind != TokenKind::kNumber &&
      tokens.current().kind != TokenKind::kWord) {
    return tokens.Wants("a number, true or false");
  }
  tokens.Advance();
  return absl::OkStatus();
}

absl::Status SkipElements(TokenStream& tokens, int64_t* count) {
  tokens.Advance();
  while (!tokens.Take(']')) {
    if (*count > 0) MICA_RETURN_IF_ERROR(tokens.Expect(','));
    MICA_RETURN_IF_ERROR(SkipElement(tokens));
    ++*count;
  }
  return absl::OkStatus();
}

absl::Status ReadElements(const TokenStream& tokens, DType dtype, int64_t count,
                          Lexer elements, std::vector<uint8_t>* bytes) {
  const int64_t size = ElementBytes(dtype);
  uint8_t splat[16];
  for (int64_t i = 0; i < count; ++i) {
    const Token token = elements.Next();
    elements.Next();
    if (!ParseElement(dtype, token.text, splat)) {
      return tokens.ErrorAt(
          token.offset,
          absl::StrCat("constant: wants an element of ", DTypeName(dtype),
                       ", got ", Describe(token)));
    }
    if (!bytes->empty()) std::copy_n(splat, size, &(*bytes)[i * size]);
  }
  const int64_t total = static_cast<int64_t>(bytes->size());
  for (int64_t i = count * size; i < total; ++i) {
    (*bytes)[i] = (*bytes)[i - size];
  }
  return absl::OkStatus();
}

}  // namespace mica
