// What the calls of a tape would give at other sizes.

#ifndef MICA_ANALYSIS_SIZES_SIZE_RULES_H_
#define MICA_ANALYSIS_SIZES_SIZE_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "framework/op/op_registry.h"

namespace mica {

// How a tensor lies in its storage, in elements.
struct TensorSizes {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  friend bool operator==(const TensorSizes&, const TensorSizes&) = default;
};
// "[2,3]{3,1}".
std::string ToString(const TensorSizes& sizes);
// How the tensors of a tape lie.
std::vector<TensorSizes> SizesOf(const Tape& tape);

// The tensors that a call gives, items of lists one by one.
std::vector<TapeTensorId> OutputsOf(const TapeCall& call);

// The sizes of call `index`'s results, one for each of OutputsOf(): by the
// operator's own rule where Mica knows it, else by ATen's naming rules; nothing
// where there is neither, or for what the call passes through. `args` stand in
// place of its own, `tensors` has what came before. What isn't a view is
// row-major here, however the operator would have it lie.
std::vector<std::optional<TensorSizes>> FindResultSizes(
    const Tape& tape, int32_t index, absl::Span<const TapeValue> args,
    absl::Span<const TensorSizes> tensors, const OpRegistry& ops);

// Whether the call's result shows memory of its argument.
bool IsViewCall(const TapeCall& call);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SIZE_RULES_H_
