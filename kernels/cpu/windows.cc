// Kernels that copy operands into windows of their result: joins of tensors
// that lie in any way, padding, and gradients of views.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/cpu/pointwise.h"

namespace mica::cpu {
namespace {

// An operand's copy to a place in the result.
struct Window {
  int arg = 0;
  int64_t from = 0;    // In bytes, of the operand.
  int64_t offset = 0;  // In bytes, of the result.
  Prepared copy;
};

struct WindowsState {
  int out_arg = 0;
  int64_t zero_bytes = 0;  // Of the result, before the copies.
  // Instead of zeros: so many elements of the constant.
  int64_t num_filled = 0;
  int64_t element_bytes = 0;
  Constant fill;
  std::vector<Window> windows;
};

bool LaunchWindows(const void* state, void* const* args,
                   LaunchContext& context) {
  const auto& s = *static_cast<const WindowsState*>(state);
  auto* out = static_cast<char*>(args[s.out_arg]);
  if (s.zero_bytes > 0) std::memset(out, 0, static_cast<size_t>(s.zero_bytes));
  if (s.num_filled > 0) {
    FillLoopOf(s.element_bytes)(s.fill.bytes, out, s.num_filled);
  }
  for (const Window& window : s.windows) {
    void* const copy_args[] = {
        static_cast<char*>(args[window.arg]) + window.from,
        out + window.offset};
    const bool is_done =
        window.copy.launch(window.copy.state.get(), copy_args, context);
    if (!is_done) return false;
  }
  return true;
}

// Collects the windows of a request's result 0.
class WindowsBuilder {
 public:
  explicit WindowsBuilder(const KernelRequest& request)
      : request_(request), strides_(result().EffectiveStrides()) {
    state_.out_arg = static_cast<int>(request.operands.size());
  }

  const TensorType& result() const { return request_.results[0].type; }
  const Dims& strides() const { return strides_; }
  void ZeroFirst() { state_.zero_bytes = result().num_bytes(); }
  void FillFirst(const Constant& value) {
    state_.num_filled = result().num_elements();
    state_.element_bytes = ElementBytes(result().dtype);
    state_.fill = value;
  }

  // Operand `arg` goes where element 0 of `window` is `start` elements behind
  // the result's first. False if there is no copy of that form.
  bool Add(int arg, int64_t start, TensorType window) {
    return Add(arg, 0, request_.operands[arg].type, start, std::move(window));
  }

  // The same of a part of the operand, whose first element is `from_start`
  // elements behind the operand's.
  bool Add(int arg, int64_t from_start, TensorType from, int64_t start,
           TensorType window) {
    if (from.dims != window.dims || from.dtype != window.dtype) return false;
    if (window.num_elements() == 0) return true;
    const int64_t element_bytes = ElementBytes(result().dtype);
    KernelRequest request = request_;
    request.operands = {{.type = std::move(from)}};
    request.results = {{.type = std::move(window)}};
    Verdict verdict = PrepareCopy(request);
    auto* copy = std::get_if<Prepared>(&verdict);
    if (copy == nullptr || copy->scratch_bytes > 0) return false;
    state_.windows.push_back({.arg = arg,
                              .from = from_start * element_bytes,
                              .offset = start * element_bytes,
                              .copy = std::move(*copy)});
    return true;
  }

  Prepared Finish() {
    Prepared prepared;
    prepared.launch = LaunchWindows;
    prepared.never_fails = true;
    prepared.state = std::make_shared<const WindowsState>(std::move(state_));
    return prepared;
  }

 private:
  const KernelRequest& request_;
  const Dims strides_;
  WindowsState state_;
};

Verdict PrepareCat(const KernelRequest& request) {
  WindowsBuilder builder(request);
  const TensorType& out = builder.result();
  if (request.OperandIndex(1) >= 0 || out.rank() == 0) return No{"no axis"};
  const int64_t given = request.Has(1) ? request.Int(1) : 0;
  const int64_t axis = given < 0 ? given + out.rank() : given;
  int64_t at = 0;
  for (size_t i = 0; i < request.operands.size(); ++i) {
    const TensorType& from = request.operands[i].type;
    if (from.rank() != out.rank()) {
      // An empty tensor of one dimension joins any others.
      if (from.num_elements() == 0) continue;
      return No{"ranks differ"};
    }
    TensorType window = out;
    window.dims[axis] = from.dims[axis];
    window.strides = builder.strides();
    const int64_t start = at * builder.strides()[axis];
    if (!builder.Add(static_cast<int>(i), start, std::move(window))) {
      return No{"an operand has no copy"};
    }
    at += from.dims[axis];
  }
  return builder.Finish();
}

Verdict PrepareStack(const KernelRequest& request) {
  WindowsBuilder builder(request);
  const TensorType& out = builder.result();
  if (request.OperandIndex(1) >= 0) return No{"no axis"};
  const int64_t given = request.Has(1) ? request.Int(1) : 0;
  const int64_t axis = given < 0 ? given + out.rank() : given;
  TensorType window = out;
  window.strides = builder.strides();
  const int64_t step = window.strides[axis];
  window.dims.erase(window.dims.begin() + axis);
  window.strides.erase(window.strides.begin() + axis);
  for (size_t i = 0; i < request.operands.size(); ++i) {
    if (!builder.Add(static_cast<int>(i), static_cast<int64_t>(i) * step,
                     window)) {
      return No{"an operand has no copy"};
    }
  }
  return builder.Finish();
}

// True if parameters `first` to `last` are numbers that are known now.
bool AreConstant(const KernelRequest& request, int first, int last) {
  for (int param = first; param <= last; ++param) {
    if (request.OperandIndex(param) >= 0) return false;
  }
  return true;
}

Verdict PreparePad(const KernelRequest& request) {
  WindowsBuilder builder(request);
  const TensorType& out = builder.result();
  const auto elem = ElemOf(out.dtype);
  if (!out.is_dense() || !elem.has_value()) return No{"has gaps"};
  if (request.OperandIndex(2) >= 0) return No{"the value varies"};
  const auto pad = request.Ints(1);  // Pairs, of the last axis first.
  TensorType from = request.operands[0].type, window = out;
  from.strides = from.EffectiveStrides();
  window.strides = builder.strides();
  int64_t from_start = 0, start = 0;
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    const auto axis = out.rank() - 1 - static_cast<int>(i / 2);
    // What is negative is cut off.
    from_start += std::max<int64_t>(-pad[i], 0) * from.strides[axis];
    start += std::max<int64_t>(pad[i], 0) * window.strides[axis];
    from.dims[axis] += std::min<int64_t>(pad[i], 0);
    from.dims[axis] += std::min<int64_t>(pad[i + 1], 0);
    from.dims[axis] = std::max<int64_t>(from.dims[axis], 0);
    window.dims[axis] = from.dims[axis];
  }
  const auto* integer = std::get_if<int64_t>(&(*request.arguments)[2]);
  builder.FillFirst(integer != nullptr
                        ? MakeConstant(*elem, *integer)
                        : MakeConstant(*elem, request.Number(2)));
  if (!builder.Add(0, from_start, std::move(from), start, std::move(window))) {
    return No{"the operand has no copy"};
  }
  return builder.Finish();
}

Verdict PrepareSelectBackward(const KernelRequest& request) {
  WindowsBuilder builder(request);
  const TensorType& out = builder.result();
  if (!out.is_dense() || !AreConstant(request, 2, 3)) return No{"has gaps"};
  const int64_t axis = request.Int(2) + (request.Int(2) < 0 ? out.rank() : 0);
  const int64_t index =
      request.Int(3) + (request.Int(3) < 0 ? out.dims[axis] : 0);
  TensorType window = out;
  window.strides = builder.strides();
  window.dims.erase(window.dims.begin() + axis);
  window.strides.erase(window.strides.begin() + axis);
  builder.ZeroFirst();
  if (!builder.Add(0, index * builder.strides()[axis], std::move(window))) {
    return No{"the gradient has no copy"};
  }
  return builder.Finish();
}

Verdict PrepareSliceBackward(const KernelRequest& request) {
  WindowsBuilder builder(request);
  const TensorType& out = builder.result();
  if (!out.is_dense() || !AreConstant(request, 2, 5)) return No{"has gaps"};
  const int64_t axis = request.Int(2) + (request.Int(2) < 0 ? out.rank() : 0);
  const int64_t size = out.dims[axis];
  const auto bound = [&](int param) {
    const int64_t given = request.Int(param);
    return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
  };
  const int64_t start = bound(3);
  const int64_t length = std::max<int64_t>(bound(4) - start, 0);
  TensorType window = out;
  window.strides = builder.strides();
  window.dims[axis] = length > 0 ? (length - 1) / request.Int(5) + 1 : 0;
  // Of one row the stride is free, and a huge step no overflow.
  if (window.dims[axis] > 1) window.strides[axis] *= request.Int(5);
  builder.ZeroFirst();
  if (!builder.Add(0, start * builder.strides()[axis], std::move(window))) {
    return No{"the gradient has no copy"};
  }
  return builder.Finish();
}

}  // namespace

void RegisterWindows(KernelRegistry& registry) {
  registry.Add("aten.cat", kMovedTypes, KernelRank::kFast,
               {"cpu.cat_windows", PrepareCat});
  registry.Add("aten.stack", kMovedTypes, KernelRank::kFast,
               {"cpu.stack_windows", PrepareStack});
  registry.Add("aten.constant_pad_nd", kMovedTypes, KernelRank::kFast,
               {"cpu.pad", PreparePad});
  registry.Add("aten.select_backward", kMovedTypes, KernelRank::kFast,
               {"cpu.select_backward", PrepareSelectBackward});
  registry.Add("aten.slice_backward", kMovedTypes, KernelRank::kFast,
               {"cpu.slice_backward", PrepareSliceBackward});
}

}  // namespace mica::cpu
