// Kernels that copy operands into windows of their result: joins of tensors
// that lie in any way, and gradients of views.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"

namespace mica::cpu {
namespace {

// An operand's copy to a place in the result.
struct Window {
  int arg = 0;
  int64_t offset = 0;  // In bytes.
  Prepared copy;
};

struct WindowsState {
  int out_arg = 0;
  int64_t zero_bytes = 0;  // Of the result, before the copies.
  std::vector<Window> windows;
};

bool LaunchWindows(const void* state, void* const* args,
                   LaunchContext& context) {
  const auto& s = *static_cast<const WindowsState*>(state);
  auto* out = static_cast<char*>(args[s.out_arg]);
  if (s.zero_bytes > 0) std::memset(out, 0, static_cast<size_t>(s.zero_bytes));
  for (const Window& window : s.windows) {
    void* const copy_args[] = {args[window.arg], out + window.offset};
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

  // Operand `arg` goes where element 0 of `window` is `start` elements behind
  // the result's first. False if there is no copy of that form.
  bool Add(int arg, int64_t start, TensorType window) {
    const TensorType& from = request_.operands[arg].type;
    if (from.dims != window.dims || from.dtype != window.dtype) return false;
    if (window.num_elements() == 0) return true;
    KernelRequest request = request_;
    request.operands = {request_.operands[arg]};
    request.results = {{.type = std::move(window)}};
    Verdict verdict = PrepareCopy(request);
    auto* copy = std::get_if<Prepared>(&verdict);
    if (copy == nullptr || copy->scratch_bytes > 0) return false;
    state_.windows.push_back({.arg = arg,
                              .offset = start * ElementBytes(result().dtype),
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

// True if parameters `first` to `last` are numbers that are known now.
bool AreConstant(const KernelRequest& request, int first, int last) {
  for (int param = first; param <= last; ++param) {
    if (request.OperandIndex(param) >= 0) return false;
  }
  return true;
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
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kI64,
                              DType::kI32, DType::kBool};
  registry.Add("aten.cat", kTypes, KernelRank::kFast,
               {"cpu.cat_windows", PrepareCat});
  registry.Add("aten.select_backward", kTypes, KernelRank::kFast,
               {"cpu.select_backward", PrepareSelectBackward});
  registry.Add("aten.slice_backward", kTypes, KernelRank::kFast,
               {"cpu.slice_backward", PrepareSliceBackward});
}

}  // namespace mica::cpu
