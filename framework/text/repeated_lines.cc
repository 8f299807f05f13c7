#include "framework/text/repeated_lines.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace mica {
namespace {

// Lines of one form whose operands have still more types are read each anew.
constexpr size_t kMostTypes = 8;

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

// Of the name that begins at `at`.
size_t EndOfName(absl::string_view text, size_t at) {
  while (at < text.size() && KindOfByte(text[at]) == ByteKind::kOfName) ++at;
  return at;
}

}  // namespace

bool RepeatedLines::Read(size_t offset) {
  if (last_ >= 0) {
    const int32_t guess = forms_[last_].next;
    if (guess >= 0 && Follows(forms_[guess], offset)) {
      SetFound(guess);
      return true;
    }
  }
  found_ = -1;
  if (!ReadAny(offset)) return false;
  if (const auto it = by_text_.find(form_.text); it != by_text_.end()) {
    SetFound(it->second);
  }
  return true;
}

void RepeatedLines::SetFound(int32_t form) {
  if (last_ >= 0) forms_[last_].next = form;
  found_ = last_ = form;
}

bool RepeatedLines::Follows(const Form& form, size_t offset) {
  names_.clear();
  size_t at = offset, from = 0;
  const auto has = [&](size_t to) {
    const size_t size = to - from;
    if (text_.size() - at < size ||
        std::memcmp(text_.data() + at, form.text.data() + from, size) != 0) {
      return false;
    }
    at += size;
    from = to;
    return true;
  };
  for (const uint32_t name : form.names) {
    if (!has(name)) return false;
    const size_t end = EndOfName(text_, at);
    if (end == at) return false;
    names_.push_back(text_.substr(at, end - at));
    at = end;
  }
  if (!has(form.text.size())) return false;
  if (at < text_.size() && text_[at] != '\n') return false;
  num_results_ = form.num_results;
  end_ = at;
  return true;
}

bool RepeatedLines::ReadAny(size_t offset) {
  std::string& form = form_.text;
  form.clear();
  form_.names.clear();
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
        const size_t end = EndOfName(text_, at + 1);
        if (end == at + 1) return false;
        form.append(&text_[copied], at + 1 - copied);
        form_.names.push_back(static_cast<uint32_t>(form.size()));
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
  form.append(text_.data() + copied, at - copied);
  end_ = at;
  return num_equals > 0;
}

void RepeatedLines::Learn(OpId op) {
  if (found_ < 0) {
    const auto number = static_cast<int32_t>(forms_.size());
    by_text_.emplace(form_.text, number);
    form_.num_results = num_results_;
    forms_.push_back(form_);
    SetFound(number);
  }
  std::vector<OpId>& ops = forms_[found_].ops;
  if (ops.size() < kMostTypes) ops.push_back(op);
}

}  // namespace mica
