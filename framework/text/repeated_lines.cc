#include "framework/text/repeated_lines.h"

#include <array>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "framework/text/lexer.h"

namespace mica {
namespace {

// What a byte of a line is to RepeatedLines.
enum class ByteKind : uint8_t { kOther, kOfName, kSpecial };

constexpr std::array<ByteKind, 256> MakeByteKinds() {
  std::array<ByteKind, 256> kinds = {};
  for (int c = 0; c < 256; ++c) {
    const bool is_of_name = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                            (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
    if (is_of_name) kinds[c] = ByteKind::kOfName;
  }
  for (const char c : {'%', '"', '=', '/', '\n'}) {
    kinds[static_cast<uint8_t>(c)] = ByteKind::kSpecial;
  }
  return kinds;
}
constexpr std::array<ByteKind, 256> kByteKinds = MakeByteKinds();

ByteKind KindOfByte(char c) { return kByteKinds[static_cast<uint8_t>(c)]; }

}  // namespace

bool RepeatedLines::Read(size_t offset) {
  form_.clear();
  names_.clear();
  num_results_ = 0;
  size_t at = offset, copied = offset;
  int num_equals = 0;
  for (;; ++at) {
    while (at < text_.size() && KindOfByte(text_[at]) != ByteKind::kSpecial) {
      ++at;
    }
    if (at >= text_.size() || text_[at] == '\n') break;
    switch (text_[at]) {
      case '%': {
        // Arguments that are given by name may come in any order.
        if (num_equals > 1) return false;
        size_t end = at + 1;
        while (end < text_.size() &&
               KindOfByte(text_[end]) == ByteKind::kOfName) {
          ++end;
        }
        if (end == at + 1) return false;
        form_.append(&text_[copied], at + 1 - copied);
        names_.push_back(text_.substr(at + 1, end - at - 1));
        copied = end;
        at = end - 1;
        break;
      }
      case '"':
        at = text_.find_first_of("\"\\\n", at + 1);
        if (at == absl::string_view::npos || text_[at] != '"') return false;
        break;
      case '=':
        if (num_equals++ == 0) num_results_ = names_.size();
        break;
      default:  // A comment, or nothing legal.
        return false;
    }
  }
  form_.append(text_.data() + copied, at - copied);
  end_ = at;
  return num_equals > 0;
}

OpId RepeatedLines::Find() const {
  const auto it = ops_.find(form_);
  return it == ops_.end() ? -1 : it->second;
}

}  // namespace mica
