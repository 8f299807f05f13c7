// Indices that data gives: checked, negative ones counted from the end.

#ifndef MICA_KERNELS_REFERENCE_INDEXING_H_
#define MICA_KERNELS_REFERENCE_INDEXING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/reference/strided.h"

namespace mica {

// Which of the two torch's op takes.
enum class Negative : uint8_t { kLegal, kIllegal };

// Moves `index` into [0, size); false, with the error kept, if it is outside.
inline bool CheckIndex(absl::string_view op, int64_t& index, int64_t size,
                       Negative negative, LaunchContext& context) {
  const int64_t given = index;
  if (index < 0 && negative == Negative::kLegal) index += size;
  if (index >= 0 && index < size) return true;
  return context.Fail(absl::InvalidArgumentError(
      absl::StrCat(op, ": index ", given, " is out of range for size ", size)));
}

// self[indices] with index tensors and None, as a walk over its elements.
class IndexedWalk {
 public:
  // `indices` is the parameter with the list; the tensor indexed is
  // parameter 0, whose elements are found through `self`. Masks are not taken.
  IndexedWalk(const KernelRequest& request, int indices, Lane self);

  // The dims of self[indices].
  const Dims& dims() const { return dims_; }
  // Strides over dims() of the axes that are kept, in self; 0 on the others.
  const Dims& self_strides() const { return self_strides_; }
  // Of each index tensor, over dims().
  const std::vector<Dims>& index_strides() const { return index_strides_; }
  int num_indices() const { return static_cast<int>(indices_.size()); }
  // An index tensor, the size of the axis that it indexes, and its stride.
  const Lane& index(int i) const { return indices_[i]; }
  int64_t size(int i) const { return sizes_[i]; }
  int64_t stride(int i) const { return strides_[i]; }

  // Adds to `offset`, an element of self, what the index tensors say at their
  // offsets. `at` counts with the index strides from set `first_set` on.
  bool Locate(void* const* args, const Odometer& at, int first_set,
              int64_t& offset, LaunchContext& context) const;

 private:
  std::string op_;
  std::vector<Lane> indices_;
  std::vector<int64_t> sizes_;    // Of the axes indexed.
  std::vector<int64_t> strides_;  // Of these axes in self.
  Dims dims_;
  Dims self_strides_;
  std::vector<Dims> index_strides_;
};

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_INDEXING_H_
