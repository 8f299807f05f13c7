#include "ops/nn/backward.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/infer.h"

namespace mica {

absl::StatusOr<TensorTypes> MaskedResults(const OpCall& call, int mask,
                                          TensorTypes types) {
  const auto& wanted = std::get<std::vector<bool>>(call.arguments()[mask]);
  if (wanted.size() != types.size()) {
    return call.Wants(absl::StrCat("an output mask of ", types.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (!wanted[i]) types[i] = AbsentResultType();
  }
  return types;
}

absl::Status CheckGradient(const OpCall& call, int grad,
                           absl::Span<const Dim> dims, DType dtype) {
  const TensorType& type = call.Type(grad);
  if (absl::Span<const Dim>(type.dims) == dims && type.dtype == dtype) {
    return absl::OkStatus();
  }
  return call.Wants(absl::StrCat(
      "a gradient ",
      FreshTensor(dtype, Dims(dims.begin(), dims.end())).ToString()));
}

}  // namespace mica
