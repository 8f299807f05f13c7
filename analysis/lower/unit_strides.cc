#include "analysis/lower/unit_strides.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace mica {

std::string StridesPrefix(const Tape& tape, const TapeCall& call,
                          absl::FunctionRef<TensorType(TapeTensorId)> type_of) {
  std::vector<std::string> words;
  bool is_plain = true;
  for (const TapeValue& value : call.args) {
    ForEachTensor(value, [&](TapeTensorId id) {
      const TapeTensor& tensor = tape.tensors[id];
      const TensorType type = type_of(id);
      const Dims strides = type.EffectiveStrides();
      const bool is_told =
          type.is_scalar ||
          absl::MakeConstSpan(strides) == absl::MakeConstSpan(tensor.strides);
      words.push_back(is_told ? "p" : absl::StrJoin(tensor.strides, "x"));
      is_plain = is_plain && is_told;
    });
  }
  return is_plain ? ""
                  : absl::StrCat("strides.", absl::StrJoin(words, "_"), ".");
}

}  // namespace mica
