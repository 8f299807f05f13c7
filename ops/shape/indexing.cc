#include "ops/shape/indexing.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"

namespace mica {
namespace {

bool IsMask(const TensorType* type) {
  return type != nullptr &&
         (type->dtype == DType::kBool || type->dtype == DType::kU8);
}

// True if the axes that are indexed follow each other.
bool AreAdjacent(const std::vector<const TensorType*>& indices) {
  auto is_given = [](const TensorType* type) { return type != nullptr; };
  const auto first = std::find_if(indices.begin(), indices.end(), is_given);
  const auto gap = std::find(first, indices.end(), nullptr);
  return std::none_of(gap, indices.end(), is_given);
}

}  // namespace

bool HasMask(const OpCall& call, int param) {
  const std::vector<const TensorType*> indices = call.Types(param);
  return std::any_of(indices.begin(), indices.end(), IsMask);
}

absl::StatusOr<Dims> IndexedDims(const OpCall& call, int param) {
  const TensorType& self = call.Type(0);
  const std::vector<const TensorType*> indices = call.Types(param);
  if (static_cast<int>(indices.size()) > self.rank()) {
    return call.Wants("at most one index tensor for each dim");
  }
  if (HasMask(call, param)) {
    return absl::UnimplementedError(absl::StrCat(
        call.def().name(), ": a mask gives a size that depends on data"));
  }
  Dims chosen;
  bool has_index = false;
  for (const TensorType* index : indices) {
    if (index == nullptr) continue;
    has_index = true;
    if (!IsIndexDType(index->dtype) ||
        !BroadcastDims(chosen, index->dims, &chosen)) {
      return call.Wants("i32 or i64 indices that broadcast");
    }
  }
  if (!has_index) return call.Wants("at least one index tensor");
  const bool is_adjacent = AreAdjacent(indices);
  Dims dims;
  bool is_placed = !is_adjacent;
  if (is_placed) dims = chosen;
  for (int i = 0; i < self.rank(); ++i) {
    const bool is_indexed =
        i < static_cast<int>(indices.size()) && indices[i] != nullptr;
    if (!is_indexed) {
      dims.push_back(self.dims[i]);
    } else if (!is_placed) {
      dims.insert(dims.end(), chosen.begin(), chosen.end());
      is_placed = true;
    }
  }
  return dims;
}

absl::Status CheckAlongAxis(const OpCall& call, const TensorType& self,
                            const TensorType& index, int axis) {
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, call.Int(axis), self.rank()));
  if (index.num_elements() == 0) return absl::OkStatus();
  if (!IsIndexDType(index.dtype)) return call.Wants("i32 or i64 indices");
  // A tensor without dims counts as one with a single element.
  if (std::max(index.rank(), 1) != std::max(self.rank(), 1)) {
    return call.Wants("an index with as many dims as self");
  }
  for (int i = 0; i < std::min(index.rank(), self.rank()); ++i) {
    if (i != at && index.dims[i] > self.dims[i]) {
      return call.Wants("an index no larger than self but along dim");
    }
  }
  return absl::OkStatus();
}

}  // namespace mica
