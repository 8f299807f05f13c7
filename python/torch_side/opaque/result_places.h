// Has torch allocate an operator's results where a Plan has them.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_RESULT_PLACES_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_RESULT_PLACES_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// Which of an operator's allocations become its results: the first of all, the
// second, and so on. An operator allocates in the same order each time it gets
// operands of the same types, and if it once doesn't, a result is elsewhere
// and is copied. Thread-safe.
class AllocationOrder {
 public:
  explicit AllocationOrder(size_t num_results);

  // True until Learn() was called.
  bool is_unknown() const { return !is_known_.load(); }
  // Of result `i`, counted from 0; a negative number for none.
  int64_t at(size_t i) const { return order_[i].load(); }
  void Learn(absl::Span<const int64_t> order);

 private:
  const size_t num_results_;
  std::unique_ptr<std::atomic<int64_t>[]> order_;
  std::atomic<bool> is_known_ = false;
};

// A call of an operator, on this thread, from its constructor to Finish(). In
// it torch's allocator gives the results' planned memory for those allocations
// that become results; all others are as ever.
//
// An operator that keeps a result's memory for itself, as none of ATen's does,
// would find it overwritten: AreKept() tells, once all tensors of the call are
// gone.
class ResultPlaces {
 public:
  // Puts what gives the memory in front of the allocator that torch has at the
  // first call. Where somebody puts another in front, results are copied.
  static void Install();

  // `results` are addresses, null for what nobody reads; all of them must
  // outlive this.
  ResultPlaces(AllocationOrder& order, absl::Span<const TensorType> types,
               void* const* results);
  ~ResultPlaces();
  ResultPlaces(const ResultPlaces&) = delete;
  ResultPlaces& operator=(const ResultPlaces&) = delete;

  // Ends the call, which gave `tensors`. Learns their order if it isn't known.
  void Finish(absl::Span<const at::Tensor> tensors);

  // Of result `i`: its memory was given to torch, for this result or another.
  bool AreKept() const;

 private:
  class PlacingAllocator;
  struct Place {
    void* data = nullptr;
    int64_t order = -1;
    size_t bytes = 0;
    bool is_given = false;
    bool is_free = true;
  };
  static void TakeBack(void* place);
  void LearnOrder(absl::Span<const at::Tensor> tensors);
  // The next allocation's memory; nothing if it is an ordinary one.
  Place* Next(size_t bytes);
  void Stop();

  static thread_local ResultPlaces* current_;

  AllocationOrder& order_;
  const absl::Span<const TensorType> types_;
  void* const* results_;
  ResultPlaces* const outer_;
  bool is_watching_ = false;
  bool is_over_ = false;
  int64_t num_allocations_ = 0;
  // As many as results; kept apart, as torch has their addresses.
  absl::InlinedVector<Place, 3> places_;
  // While the order is learned: what each allocation gave.
  absl::InlinedVector<const void*, 8> given_;
};

// True if the tensor lies at `data`, as a dense tensor of the type does.
bool LiesAt(const at::Tensor& tensor, const void* data, const TensorType& type);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_RESULT_PLACES_H_
