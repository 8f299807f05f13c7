#include "analysis/sizes/size_template.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/sizes/size_walk.h"
#include "framework/base/same_bits.h"
#include "framework/base/status.h"
#include "kernels/reference/host_arithmetic.h"

namespace mica {
namespace {

// What a comparison gives; nothing if a number isn't known.
std::optional<bool> OutcomeOf(const SizeFacts::Comparison& comparison,
                              SizeNumbers& numbers) {
  const double a = numbers.Of(comparison.a), b = numbers.Of(comparison.b);
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  const HostOp* op = FindHostOp(comparison.op);
  double outcome = 0;
  if (op == nullptr || op->compute(a, b, &outcome) != nullptr) {
    return std::nullopt;
  }
  return outcome != 0;
}

}  // namespace

std::vector<int64_t> DenseStrides(absl::Span<const int64_t> sizes,
                                  absl::Span<const int> order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[*dim] = stride;
    stride *= std::max<int64_t>(sizes[*dim], 1);
  }
  return strides;
}

std::vector<int> StrideOrder(absl::Span<const int64_t> sizes,
                             absl::Span<const int64_t> strides) {
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  // A dim of one element may have any stride.
  absl::c_stable_sort(order, [&](int a, int b) {
    return std::pair(strides[a], sizes[a]) > std::pair(strides[b], sizes[b]);
  });
  return order;
}

std::optional<std::vector<bool>> GapsOf(absl::Span<const int64_t> sizes,
                                        absl::Span<const int64_t> strides) {
  const std::vector<int> order = StrideOrder(sizes, strides);
  std::vector<bool> gaps(sizes.size());
  int64_t dense = 1;   // The stride if there were no gap.
  int64_t extent = 1;  // From the first to the last element within.
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    if (sizes[*dim] == 1) continue;
    if (strides[*dim] < extent) return std::nullopt;
    gaps[*dim] = strides[*dim] != dense;
    dense = strides[*dim] * sizes[*dim];
    extent += strides[*dim] * (sizes[*dim] - 1);
  }
  return gaps;
}

std::vector<int> SizeTemplate::OpenDims(int input) const {
  std::vector<int> dims;
  for (const auto& [dim, group] : groups_->of(tape().inputs[input])) {
    dims.push_back(dim);
  }
  return dims;
}

bool SizeTemplate::LiesAsBefore(const TensorSizes& given, const TapeTensor& own,
                                const Lies& lies) {
  switch (lies.layout) {
    case Layout::kDense:
      return given.strides == DenseStrides(given.sizes, lies.order);
    case Layout::kGapped:
      return StrideOrder(given.sizes, given.strides) == lies.order &&
             GapsOf(given.sizes, given.strides) ==
                 GapsOf(own.sizes, own.strides);
    default:
      return given.strides == own.strides;
  }
}

absl::Status SizeTemplate::CheckInputs(
    absl::Span<const TensorSizes> inputs) const {
  if (static_cast<int>(inputs.size()) != num_args_) {
    return absl::InvalidArgumentError("another number of inputs");
  }
  for (int i = 0; i < num_args_; ++i) {
    const TapeTensor& own = tape().tensors[tape().inputs[i]];
    const TensorSizes& given = inputs[i];
    const std::vector<int> open = OpenDims(i);
    bool fits = given.sizes.size() == own.sizes.size();
    for (size_t d = 0; fits && d < own.sizes.size(); ++d) {
      fits = absl::c_linear_search(open, static_cast<int>(d))
                 ? given.sizes[d] >= 2
                 : given.sizes[d] == own.sizes[d];
    }
    if (fits && LiesAsBefore(given, own, lies_[tape().inputs[i]])) continue;
    return Unlike(absl::StrCat(own.name, " is ", ToString(given)));
  }
  return absl::OkStatus();
}

bool SizeTemplate::IsGivenOpen(int number) const {
  return absl::c_any_of(runs_, [&](const SizedTape& run) {
    return run.given[number] != runs_.back().given[number];
  });
}

absl::Status SizeTemplate::CheckGiven(absl::Span<const double> given) const {
  const std::vector<double>& own = runs_.back().given;
  if (given.size() != own.size()) {
    return absl::InvalidArgumentError("another number of numbers");
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (given[i] == own[i] || IsGivenOpen(static_cast<int>(i))) continue;
    return Unlike(absl::StrCat(facts_.given[i], " is ", given[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tape> SizeTemplate::At(absl::Span<const TensorSizes> inputs,
                                      absl::Span<const double> given) const {
  MICA_RETURN_IF_ERROR(CheckInputs(inputs));
  MICA_RETURN_IF_ERROR(CheckGiven(given));
  if (rounds_.num_loops() == 0) return AtOwnCounts(inputs, given);
  MICA_ASSIGN_OR_RETURN(std::vector<int32_t> counts, CountsAt(inputs, given));
  if (counts == rounds_.counts()) return AtOwnCounts(inputs, given);
  MICA_ASSIGN_OR_RETURN(const auto other, WithCounts(std::move(counts)));
  return other->AtOwnCounts(inputs, given);
}

absl::StatusOr<Tape> SizeTemplate::AtOwnCounts(
    absl::Span<const TensorSizes> inputs,
    absl::Span<const double> given) const {
  Walk walk(*this, given);
  MICA_RETURN_IF_ERROR(walk.Go(inputs));
  MICA_RETURN_IF_ERROR(walk.CheckAlike());
  MICA_RETURN_IF_ERROR(walk.CheckCopies());
  SizeNumbers& numbers = walk.numbers();
  for (const auto& [number, value] : constant_) {
    if (SameBits(numbers.Of(number), value)) continue;
    return Unlike("a number that was the same in all runs isn't");
  }
  MICA_RETURN_IF_ERROR(CheckComparisons(numbers));
  MICA_RETURN_IF_ERROR(CheckSlices(numbers, walk.sizes()));
  MICA_RETURN_IF_ERROR(CheckCounts(numbers, walk.sizes()));
  return walk.MakeTape();
}

bool SizeTemplate::IsAll(const SizeFacts::Slice& slice, SizeNumbers& numbers,
                         absl::Span<const TensorSizes> tensors) {
  if (numbers.Of(slice.start) != 0) return false;
  if (slice.dim == SizeFacts::Slice::kNoDim) return false;
  const std::vector<int64_t>& sizes = tensors[slice.tensor].sizes;
  const auto rank = static_cast<int32_t>(sizes.size());
  const int32_t dim = slice.dim < 0 ? slice.dim + rank : slice.dim;
  if (dim < 0 || dim >= rank) return false;
  return numbers.Of(slice.stop) >= static_cast<double>(sizes[dim]);
}

absl::Status SizeTemplate::CheckSlices(
    SizeNumbers& numbers, absl::Span<const TensorSizes> tensors) const {
  for (const SizeFacts::Slice& slice : slices_) {
    if (IsAll(slice, numbers, tensors)) continue;
    return Unlike("a slice isn't all of its dim any more");
  }
  return absl::OkStatus();
}

absl::Status SizeTemplate::CheckComparisons(SizeNumbers& numbers) const {
  for (const SizeFacts::Comparison& comparison : facts_.comparisons) {
    if (OutcomeOf(comparison, numbers) == comparison.outcome) continue;
    return Unlike("a comparison of sizes comes out otherwise");
  }
  return absl::OkStatus();
}

}  // namespace mica
