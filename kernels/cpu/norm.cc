// Layer norm and softmax over the last axes, float32.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Places of the operands among a launch's arguments, -1 for what isn't there.
struct NormState {
  int x = 0, addend = -1, gamma = -1, beta = -1;
  int y = -1, sum = -1, mean = -1, rstd = -1;
  int64_t rows = 0, n = 0;
  float eps = 0;
  int num_threads = 1;
};

template <typename T>
T* At(void* const* args, int arg, int64_t offset) {
  if (arg < 0 || args[arg] == nullptr) return nullptr;
  return static_cast<T*>(args[arg]) + offset;
}

bool LaunchNorm(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const NormState*>(state);
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    const int64_t at = begin * s.n;
    Simd().layer_norm({.x = At<const float>(args, s.x, at),
                       .addend = At<const float>(args, s.addend, at),
                       .sum = At<float>(args, s.sum, at),
                       .gamma = At<const float>(args, s.gamma, 0),
                       .beta = At<const float>(args, s.beta, 0),
                       .y = At<float>(args, s.y, at),
                       .mean = At<float>(args, s.mean, begin),
                       .rstd = At<float>(args, s.rstd, begin),
                       .rows = end - begin,
                       .n = s.n,
                       .eps = s.eps});
  });
  return true;
}

bool AreRowMajor(const KernelRequest& request) {
  for (const Operand& operand : request.operands) {
    if (!operand.type.is_row_major()) return false;
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return false;
  }
  return true;
}

// `shape` is the position of normalized_shape, before weight, bias and eps.
Verdict PrepareNorm(const KernelRequest& request, int shape, NormState state) {
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  state.n = 1;
  for (int64_t dim : request.Ints(shape)) state.n *= dim;
  const int64_t elements = request.operands[0].type.num_elements();
  if (state.n == 0 || elements == 0) return No{"no elements"};
  state.rows = elements / state.n;
  state.gamma = request.OperandIndex(shape + 1);
  state.beta = request.OperandIndex(shape + 2);
  state.eps = static_cast<float>(request.Number(shape + 3));
  state.num_threads = UsefulThreads(request.num_threads, elements);
  Prepared prepared;
  prepared.launch = LaunchNorm;
  prepared.never_fails = true;
  // A row is read before it is written. Of two addends either place will do.
  prepared.inplace_operands = state.addend >= 0 ? 3 : 1;
  prepared.state = std::make_shared<const NormState>(state);
  return prepared;
}

Verdict PrepareLayerNorm(const KernelRequest& request) {
  const int out = static_cast<int>(request.operands.size());
  if (!request.results[0].is_used) return No{"only the statistics are read"};
  return PrepareNorm(request, 1, {.y = out, .mean = out + 1, .rstd = out + 2});
}

Verdict PrepareAddLayerNorm(const KernelRequest& request) {
  const int out = static_cast<int>(request.operands.size());
  if (!request.results[1].is_used) return No{"only the sum is read"};
  return PrepareNorm(request, 2, {.addend = 1, .y = out + 1, .sum = out});
}

struct SoftmaxState {
  void (*rows_fn)(const float*, float*, int64_t, int64_t) = nullptr;
  int64_t rows = 0, n = 0;
  int num_threads = 1;
};

bool LaunchSoftmax(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const SoftmaxState*>(state);
  const auto* x = static_cast<const float*>(args[0]);
  auto* out = static_cast<float*>(args[1]);
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    s.rows_fn(x + begin * s.n, out + begin * s.n, end - begin, s.n);
  });
  return true;
}

// Rows that are -inf throughout give zeros, where a softmax gives nan.
void SafeSoftmax(const float* x, float* out, int64_t rows, int64_t n) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  Simd().softmax(x, out, rows, n);
  for (int64_t r = 0; r < rows; ++r, x += n, out += n) {
    if (!std::isnan(out[0])) continue;
    if (std::all_of(x, x + n, [](float v) { return v == kLeast; })) {
      std::fill_n(out, n, 0.0f);
    }
  }
}

Verdict PrepareSoftmax(const KernelRequest& request,
                       void (*rows_fn)(const float*, float*, int64_t,
                                       int64_t)) {
  const TensorType& x = request.operands[0].type;
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  if (request.results[0].type.dtype != DType::kF32) return No{"not to f32"};
  const int64_t axis = request.Int(1);
  if (x.rank() == 0 || (axis != x.rank() - 1 && axis != -1)) {
    return No{"not along the last axis"};
  }
  const int64_t n = x.dims.back(), elements = x.num_elements();
  if (elements == 0) return No{"no elements"};
  Prepared prepared;
  prepared.launch = LaunchSoftmax;
  prepared.never_fails = true;
  // Safe softmax looks at x again.
  prepared.inplace_operands = rows_fn == SafeSoftmax ? 0 : 1;
  prepared.state = std::make_shared<const SoftmaxState>(SoftmaxState{
      rows_fn, elements / n, n, UsefulThreads(request.num_threads, elements)});
  return prepared;
}

}  // namespace

void RegisterNorm(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("aten.native_layer_norm", kFloat, KernelRank::kFast,
               {"cpu.layer_norm", PrepareLayerNorm});
  registry.Add("mica.add_layer_norm", kFloat, KernelRank::kFast,
               {"cpu.add_layer_norm", PrepareAddLayerNorm});
  registry.Add("aten._softmax", kFloat, KernelRank::kFast,
               {"cpu.softmax", [](const KernelRequest& request) {
                  return PrepareSoftmax(request, Simd().softmax);
                }});
  registry.Add("aten._safe_softmax", kFloat, KernelRank::kFast,
               {"cpu.safe_softmax", [](const KernelRequest& request) {
                  return PrepareSoftmax(request, SafeSoftmax);
                }});
  registry.Add("aten._log_softmax", kFloat, KernelRank::kFast,
               {"cpu.log_softmax", [](const KernelRequest& request) {
                  return PrepareSoftmax(request, Simd().log_softmax);
                }});
}

}  // namespace mica::cpu
