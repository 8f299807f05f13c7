#include "kernels/cpu/turned_reduction.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "framework/tensor/tensor.h"
#include "kernels/cpu/strided_copy.h"

namespace mica::cpu {
namespace {

constexpr int kMostTurnedArrays = 64;

// An array that lies otherwise than the inner kernel wants it.
struct TurnedCopy {
  int array = 0;
  int64_t offset = 0;  // In the scratch memory.
  StridedCopy copy;
};

struct TurnedState {
  Prepared inner;
  int num_arrays = 0;  // Operands and results.
  int64_t inner_scratch = 0;
  std::vector<TurnedCopy> before, after;
  int num_threads = 1;
};

bool LaunchTurned(const void* state, void* const* args,
                  LaunchContext& context) {
  const auto& s = *static_cast<const TurnedState*>(state);
  void* own[kMostTurnedArrays + 1];
  auto* scratch = static_cast<char*>(args[s.num_arrays]);
  for (int i = 0; i < s.num_arrays; ++i) own[i] = args[i];
  own[s.num_arrays] = scratch + s.inner_scratch;
  for (const TurnedCopy& one : s.before) {
    own[one.array] = scratch + one.offset;
    one.copy.Run(args[one.array], own[one.array], s.num_threads);
  }
  for (const TurnedCopy& one : s.after) {
    if (args[one.array] != nullptr) own[one.array] = scratch + one.offset;
  }
  if (!s.inner.launch(s.inner.state.get(), own, context)) return false;
  for (const TurnedCopy& one : s.after) {
    if (args[one.array] == nullptr) continue;
    one.copy.Run(own[one.array], args[one.array], s.num_threads);
  }
  return true;
}

// Puts a type's dimensions in another order, reduced ones first.
class Turning {
 public:
  Turning(const Dims& dims, const std::vector<bool>& is_reduced) {
    for (const bool of_reduced : {true, false}) {
      for (size_t d = 0; d < dims.size(); ++d) {
        if (is_reduced[d] != of_reduced) continue;
        order_.push_back(static_cast<int>(d));
        dims_.push_back(dims[d]);
        num_reduced_ += of_reduced ? 1 : 0;
      }
    }
  }

  TensorType Turned(const TensorType& type) const {
    TensorType turned{.dtype = type.dtype};
    const Dims strides = type.EffectiveStrides();
    const int lacks = static_cast<int>(dims_.size()) - type.rank();
    for (const int d : order_) {
      const bool is_there = d >= lacks;
      turned.dims.push_back(is_there ? type.dims[d - lacks] : 1);
      turned.strides.push_back(is_there ? strides[d - lacks] : 0);
    }
    return turned;
  }

  // The turned type as the inner kernel's copy of it: dense, and whole in what
  // is kept or reduced, if it is more than one element of it.
  TensorType Whole(const TensorType& turned) const {
    TensorType whole{.dtype = turned.dtype, .dims = turned.dims};
    for (const bool of_reduced : {true, false}) {
      const size_t begin = of_reduced ? 0 : num_reduced_;
      const size_t end = of_reduced ? num_reduced_ : dims_.size();
      bool is_one = true;
      for (size_t i = begin; i < end; ++i) {
        is_one = is_one && turned.dims[i] == 1;
      }
      for (size_t i = begin; i < end && !is_one; ++i) whole.dims[i] = dims_[i];
    }
    return whole;
  }

  // The same as two dimensions.
  TensorType Flat(const TensorType& whole) const {
    TensorType flat{.dtype = whole.dtype, .dims = {1, 1}};
    for (size_t i = 0; i < dims_.size(); ++i) {
      flat.dims[i < num_reduced_ ? 0 : 1] *= whole.dims[i];
    }
    return flat;
  }

 private:
  std::vector<int> order_;
  Dims dims_;
  size_t num_reduced_ = 0;
};

}  // namespace

Verdict PrepareTurnedReduction(
    const KernelRequest& request, const Dims& dims,
    const std::vector<bool>& is_reduced,
    absl::FunctionRef<Verdict(const KernelRequest&)> prepare) {
  const Turning turning(dims, is_reduced);
  auto state = std::make_shared<TurnedState>();
  TurnedState& s = *state;
  s.num_arrays =
      static_cast<int>(request.operands.size() + request.results.size());
  s.num_threads = request.num_threads;
  if (s.num_arrays > kMostTurnedArrays) return No{"too many operands"};
  KernelRequest inner = request;
  int64_t end = 0;
  int array = 0;
  const auto turn = [&](Operand& operand, bool is_operand) {
    const TensorType turned = turning.Turned(operand.type);
    const TensorType whole = turning.Whole(turned);
    operand.type = turning.Flat(whole);
    const int at = array++;
    if (turned == whole || (!is_operand && !operand.is_used)) return true;
    auto copy = is_operand ? StridedCopy::Of(turned, whole)
                           : StridedCopy::Of(whole, turned);
    // A result that is broadcast can't be.
    if (!copy.has_value() || (!is_operand && turned.dims != whole.dims)) {
      return false;
    }
    (is_operand ? s.before : s.after)
        .push_back({.array = at, .offset = end, .copy = *std::move(copy)});
    end += AlignUp(whole.num_bytes());
    return true;
  };
  bool can_turn = true;
  for (Operand& operand : inner.operands) can_turn &= turn(operand, true);
  for (Operand& result : inner.results) can_turn &= turn(result, false);
  if (!can_turn) return No{"can't be turned over"};
  Verdict verdict = prepare(inner);
  auto* prepared = std::get_if<Prepared>(&verdict);
  if (prepared == nullptr) return verdict;
  if (prepared->make_instance != nullptr) return No{"keeps addresses"};
  s.inner = std::move(*prepared);
  s.inner_scratch = end;
  Prepared outer{.launch = LaunchTurned,
                 .scratch_bytes = end + s.inner.scratch_bytes,
                 .never_fails = s.inner.never_fails};
  outer.state = std::move(state);
  return outer;
}

}  // namespace mica::cpu
