#include "python/torch_side/opaque/operands_form.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace mica {
namespace {

// Takes the word that follows `key` from the name.
std::optional<absl::string_view> ConsumeWord(absl::string_view key,
                                             absl::string_view* name) {
  if (!absl::ConsumePrefix(name, key)) return std::nullopt;
  const size_t dot = std::min(name->find('.'), name->size());
  const absl::string_view word = name->substr(0, dot);
  name->remove_prefix(std::min(dot + 1, name->size()));
  return word;
}

}  // namespace

OperandsForm ConsumeForm(absl::string_view* name) {
  OperandsForm form;
  if (!absl::ConsumePrefix(name, "torch.")) return form;
  absl::ConsumePrefix(name, "writing.");
  for (const char letter : ConsumeWord("lazy.", name).value_or("")) {
    form.lazy.push_back({.conj = letter == 'c' || letter == 'b',
                         .neg = letter == 'n' || letter == 'b'});
  }
  const auto words = ConsumeWord("strides.", name);
  if (!words.has_value()) return form;
  for (const absl::string_view word : absl::StrSplit(*words, '_')) {
    form.strides.emplace_back();
    if (word == "p") continue;
    Dims& strides = form.strides.back().emplace();
    for (const absl::string_view number : absl::StrSplit(word, 'x')) {
      int64_t stride = 0;
      if (!absl::SimpleAtoi(number, &stride)) break;
      strides.push_back(stride);
    }
  }
  return form;
}

}  // namespace mica
