#include "kernels/reference/indexing.h"

#include <algorithm>
#include <utility>

namespace mica {
namespace {

// The dims that all of `lanes` broadcast to.
Dims CommonDims(const std::vector<Lane>& lanes) {
  Dims dims;
  for (const Lane& lane : lanes) {
    while (dims.size() < lane.dims.size()) dims.insert(dims.begin(), 1);
    const size_t added = dims.size() - lane.dims.size();
    for (size_t i = 0; i < lane.dims.size(); ++i) {
      if (lane.dims[i] != 1) dims[i + added] = lane.dims[i];
    }
  }
  return dims;
}

// Where the indexed axes stand in the result: where the first one was if they
// are neighbours, else in front.
size_t PlaceOf(const ValueRefs& refs) {
  auto is_given = [](ValueRef ref) { return ref.id != kNoValue; };
  const auto first = std::find_if(refs.begin(), refs.end(), is_given);
  const auto gap = std::find_if_not(first, refs.end(), is_given);
  const bool is_adjacent = std::none_of(gap, refs.end(), is_given);
  return is_adjacent ? static_cast<size_t>(first - refs.begin()) : 0;
}

}  // namespace

IndexedWalk::IndexedWalk(const KernelRequest& request, int indices, Lane self)
    : op_(request.def->name()) {
  const auto& refs = std::get<ValueRefs>((*request.arguments)[indices]);
  int item = 0;
  for (int i = 0; i < self.rank(); ++i) {
    const bool is_indexed =
        i < static_cast<int>(refs.size()) && refs[i].id != kNoValue;
    if (is_indexed) {
      indices_.push_back(OperandLane(request, indices, item++));
      sizes_.push_back(self.dims[i]);
      strides_.push_back(self.strides[i]);
    } else {
      dims_.push_back(self.dims[i]);
      self_strides_.push_back(self.strides[i]);
    }
  }
  const Dims chosen = CommonDims(indices_);
  const size_t place = PlaceOf(refs);
  dims_.insert(dims_.begin() + place, chosen.begin(), chosen.end());
  const Dims zeros(chosen.size(), 0);
  self_strides_.insert(self_strides_.begin() + place, zeros.begin(),
                       zeros.end());
  for (const Lane& index : indices_) {
    const Dims own = BroadcastStrides(index, chosen);
    Dims strides(dims_.size(), 0);
    std::copy(own.begin(), own.end(), strides.begin() + place);
    index_strides_.push_back(std::move(strides));
  }
}

bool IndexedWalk::Locate(void* const* args, const Odometer& at, int first_set,
                         int64_t& offset, LaunchContext& context) const {
  for (size_t i = 0; i < indices_.size(); ++i) {
    int64_t index = indices_[i].Load<int64_t>(
        args, at.offset(first_set + static_cast<int>(i)));
    if (!CheckIndex(op_, index, sizes_[i], Negative::kLegal, context)) {
      return false;
    }
    offset += index * strides_[i];
  }
  return true;
}

}  // namespace mica
