// The elements of a constant in a text.

#ifndef MICA_FRAMEWORK_TEXT_ELEMENTS_H_
#define MICA_FRAMEWORK_TEXT_ELEMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "framework/tensor/dtype.h"
#include "framework/text/lexer.h"
#include "framework/text/token_stream.h"

namespace mica {

// Their type follows them: they are passed over first, and read then.
absl::Status SkipElement(TokenStream& tokens);
// A list of them, in brackets; adds how many there are to `count`.
absl::Status SkipElements(TokenStream& tokens, int64_t* count);

// Reads `count` elements and repeats them until `bytes` is full. Errors are
// those of `tokens`.
absl::Status ReadElements(const TokenStream& tokens, DType dtype, int64_t count,
                          Lexer elements, std::vector<uint8_t>* bytes);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_ELEMENTS_H_
