// Walks over strided tensors: what all reference kernels are made of.

#ifndef MICA_KERNELS_REFERENCE_STRIDED_H_
#define MICA_KERNELS_REFERENCE_STRIDED_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/kernel/kernel.h"
#include "kernels/reference/element.h"

namespace mica {

// One operand or result: which launch argument holds its address, and how its
// elements lie there. Offsets count elements.
struct Lane {
  int arg = 0;
  DType dtype = DType::kF32;
  Dims dims;
  Dims strides;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t num_elements() const;
  bool IsUnused(void* const* args) const { return args[arg] == nullptr; }
  template <typename C>
  C Load(void* const* args, int64_t offset) const {
    return LoadElement<C>(args[arg], dtype, offset);
  }
  template <typename C>
  void Store(void* const* args, int64_t offset, C value) const {
    StoreElement<C>(args[arg], dtype, offset, value);
  }
  bool LoadTruth(void* const* args, int64_t offset) const {
    return mica::LoadTruth(args[arg], dtype, offset);
  }
};

// The value given for a parameter, or the item-th of a list. Requires one.
Lane OperandLane(const KernelRequest& request, int param, int item = 0);
Lane ResultLane(const KernelRequest& request, int result = 0);

// Strides that repeat `lane` along the axes of `dims` that it lacks or has
// with size 1. Requires that it broadcasts.
Dims BroadcastStrides(const Lane& lane, absl::Span<const Dim> dims);

// Counts through the indices of `dims` in row-major order and keeps, for each
// set of strides, the offset of the element at the index.
//
//   for (Odometer at(dims, {a, b}); !at.done(); at.Next()) … at.offset(0) …
class Odometer {
 public:
  Odometer(absl::Span<const Dim> dims, absl::Span<const Dims> strides);

  bool done() const { return done_; }
  void Next();
  int64_t offset(int set) const { return offsets_[set]; }
  absl::Span<const int64_t> index() const { return index_; }

 private:
  Dims dims_;  // A copy: the caller's may be a temporary.
  absl::InlinedVector<Dims, 4> strides_;
  Dims index_;
  absl::InlinedVector<int64_t, 4> offsets_;
  bool done_ = false;
};

// `list` less the marked entries, and only those.
Dims Unmarked(const Dims& list, absl::Span<const bool> marked);
Dims Marked(const Dims& list, absl::Span<const bool> marked);

// The axis as an index, negative ones counted from the end.
inline int AxisIndex(int64_t axis, int rank) {
  return static_cast<int>(axis < 0 ? axis + std::max(rank, 1) : axis);
}

// A lane without axis `axis`, whose size and stride are moved out. One without
// dims has a single element along any axis.
struct AxisLane {
  Lane outer;
  int64_t size = 1;
  int64_t stride = 0;
};
AxisLane SplitAxis(Lane lane, int axis);

// What a reference kernel does at launch: it captures lanes, reads and writes
// through `args`, and returns false after context.Fail().
using LaunchBody =
    std::function<bool(void* const* args, LaunchContext& context)>;
Prepared RunBody(LaunchBody body);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_STRIDED_H_
