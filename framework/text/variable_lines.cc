#include "framework/text/variable_lines.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace mica {
namespace {

// Takes pieces off the beginning of a text, one by one; false once one isn't
// there.
class Pieces {
 public:
  Pieces(absl::string_view text, size_t offset) : text_(text), at_(offset) {}

  size_t at() const { return at_; }

  bool Take(absl::string_view word) {
    if (!absl::StartsWith(text_.substr(at_), word)) return false;
    at_ += word.size();
    return true;
  }
  bool TakeName(absl::string_view* name) {
    size_t end = at_;
    while (end < text_.size() && (absl::ascii_isalnum(text_[end]) ||
                                  text_[end] == '_' || text_[end] == '.')) {
      ++end;
    }
    return TakeTo(end, name);
  }
  // What stands before a closing quote, without escapes.
  bool TakeQuoted(absl::string_view* quoted) {
    const size_t end = text_.find_first_of("\"\\\n", at_);
    if (end == absl::string_view::npos || text_[end] != '"') return false;
    return TakeTo(end, quoted) && Take("\"");
  }

 private:
  bool TakeTo(size_t end, absl::string_view* piece) {
    if (end == at_) return false;
    *piece = text_.substr(at_, end - at_);
    at_ = end;
    return true;
  }

  const absl::string_view text_;
  size_t at_;
};

}  // namespace

size_t VariableLines::LineEnd(size_t offset) const {
  return std::min(text_.find('\n', offset), text_.size());
}

std::optional<VariableLines::Declaration> VariableLines::ReadDeclaration(
    size_t offset) const {
  Declaration line;
  Pieces pieces(text_, offset);
  const bool is_one = pieces.Take("%") && pieces.TakeName(&line.name) &&
                      pieces.Take(" = variable \"") &&
                      pieces.TakeQuoted(&line.variable) && pieces.Take(" : ");
  if (!is_one) return std::nullopt;
  line.end = LineEnd(pieces.at());
  const auto it =
      types_.find(text_.substr(pieces.at(), line.end - pieces.at()));
  if (it == types_.end()) return std::nullopt;
  line.type = &it->second;
  return line;
}

void VariableLines::Learn(size_t offset, const TensorType& type) {
  types_.try_emplace(text_.substr(offset, LineEnd(offset) - offset), type);
}

std::optional<VariableLines::UpdateLine> VariableLines::ReadUpdate(
    size_t offset) const {
  UpdateLine line;
  Pieces pieces(text_, offset);
  const bool is_one = pieces.Take("update \"") &&
                      pieces.TakeQuoted(&line.variable) &&
                      pieces.Take(" = %") && pieces.TakeName(&line.value);
  if (!is_one) return std::nullopt;
  line.variable_offset = line.variable.data() - text_.data() - 1;
  line.end = pieces.at();
  if (line.end < text_.size() && text_[line.end] != '\n') return std::nullopt;
  return line;
}

}  // namespace mica
