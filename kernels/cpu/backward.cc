// Gradients of layer norm, softmax and embedding, float32.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

bool AreRowMajor(const KernelRequest& request) {
  for (const Operand& operand : request.operands) {
    if (!operand.type.is_row_major()) return false;
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return false;
  }
  return true;
}

bool AreF32(const KernelRequest& request) {
  for (const Operand& operand : request.operands) {
    if (operand.type.dtype != DType::kF32) return false;
  }
  return request.results[0].type.dtype == DType::kF32;
}

struct LayerNormState {
  int mean_arg = 0, rstd_arg = 0, gamma_arg = -1, out_arg = 0, scratch_arg = -1;
  bool wants_x = false, wants_gamma = false, wants_beta = false;
  int64_t rows = 0, n = 0;
  int num_threads = 1;
};

float* Address(void* const* args, int arg, bool is_there) {
  return is_there ? static_cast<float*>(args[arg]) : nullptr;
}

void AddRow(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// Each thread sums its rows in arrays of its own: the first in the results.
bool LaunchLayerNormBackward(const void* state, void* const* args,
                             LaunchContext&) {
  const auto& s = *static_cast<const LayerNormState*>(state);
  float* dx = Address(args, s.out_arg, s.wants_x);
  float* dgamma = Address(args, s.out_arg + 1, s.wants_gamma);
  float* dbeta = Address(args, s.out_arg + 2, s.wants_beta);
  const size_t bytes = static_cast<size_t>(s.n) * sizeof(float);
  auto part_of = [&](int piece, int which, float* result) -> float* {
    if (result == nullptr || piece == 0) return result;
    return static_cast<float*>(args[s.scratch_arg]) +
           (2 * (piece - 1) + which) * s.n;
  };
  for (int piece = 0; piece < s.num_threads; ++piece) {
    for (int which = 0; which < 2; ++which) {
      float* part = part_of(piece, which, which == 0 ? dgamma : dbeta);
      if (part != nullptr) std::memset(part, 0, bytes);
    }
  }
  ParallelPieces(
      s.num_threads, s.rows, [&](int piece, int64_t begin, int64_t end) {
        const int64_t at = begin * s.n;
        auto in = [&](int arg) { return static_cast<const float*>(args[arg]); };
        Simd().layer_norm_backward(
            {.dy = in(0) + at,
             .x = in(1) + at,
             .mean = in(s.mean_arg) + begin,
             .rstd = in(s.rstd_arg) + begin,
             .gamma = s.gamma_arg < 0 ? nullptr : in(s.gamma_arg),
             .dx = dx == nullptr ? nullptr : dx + at,
             .dgamma = part_of(piece, 0, dgamma),
             .dbeta = part_of(piece, 1, dbeta),
             .rows = end - begin,
             .n = s.n});
      });
  for (int piece = 1; piece < s.num_threads; ++piece) {
    if (dgamma != nullptr) AddRow(dgamma, part_of(piece, 0, dgamma), s.n);
    if (dbeta != nullptr) AddRow(dbeta, part_of(piece, 1, dbeta), s.n);
  }
  return true;
}

Verdict PrepareLayerNormBackward(const KernelRequest& request) {
  if (!AreF32(request)) return No{"not f32 throughout"};
  const auto& mask = std::get<std::vector<bool>>((*request.arguments)[7]);
  for (const Operand& operand : request.operands) {
    if (!operand.type.is_row_major()) return No{"operands aren't row-major"};
  }
  for (size_t i = 0; i < 3; ++i) {
    if (mask[i] && !request.results[i].type.is_row_major()) {
      return No{"results aren't row-major"};
    }
  }
  LayerNormState s;
  const int64_t elements = request.operands[1].type.num_elements();
  s.n = 1;
  for (int64_t dim : request.Ints(2)) s.n *= dim;
  if (elements == 0) return No{"no elements"};
  // Nothing is left of its gradient but what products are rounded by.
  if (s.n == 1) return No{"a norm of one element"};
  s.rows = elements / s.n;
  s.mean_arg = request.OperandIndex(3);
  s.rstd_arg = request.OperandIndex(4);
  s.gamma_arg = request.OperandIndex(5);
  s.out_arg = static_cast<int>(request.operands.size());
  s.wants_x = mask[0] && request.results[0].is_used;
  s.wants_gamma = mask[1] && request.results[1].is_used;
  s.wants_beta = mask[2] && request.results[2].is_used;
  s.num_threads = UsefulThreads(request.num_threads, elements);
  if (s.rows < s.num_threads) s.num_threads = 1;
  Prepared prepared;
  prepared.launch = LaunchLayerNormBackward;
  prepared.scratch_bytes =
      2 * (s.num_threads - 1) * s.n * static_cast<int64_t>(sizeof(float));
  if (prepared.scratch_bytes > 0) s.scratch_arg = s.out_arg + 3;
  if (mask[0]) prepared.inplace_operands = 3;  // A row at a time.
  prepared.state = std::make_shared<const LayerNormState>(s);
  return prepared;
}

using RowsFn = void (*)(const float* dy, const float* y, float* out,
                        int64_t rows, int64_t n);

struct SoftmaxState {
  RowsFn rows_fn = nullptr;
  int64_t rows = 0, n = 0;
  int num_threads = 1;
};

bool LaunchSoftmaxBackward(const void* state, void* const* args,
                           LaunchContext&) {
  const auto& s = *static_cast<const SoftmaxState*>(state);
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    const int64_t at = begin * s.n;
    s.rows_fn(static_cast<const float*>(args[0]) + at,
              static_cast<const float*>(args[1]) + at,
              static_cast<float*>(args[2]) + at, end - begin, s.n);
  });
  return true;
}

Verdict PrepareSoftmaxBackward(const KernelRequest& request, RowsFn rows_fn) {
  const TensorType& y = request.operands[1].type;
  if (!AreF32(request)) return No{"not f32 throughout"};
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  const int64_t axis = request.Int(2);
  if (y.rank() == 0 || (axis != y.rank() - 1 && axis != -1)) {
    return No{"not along the last axis"};
  }
  const int64_t elements = y.num_elements();
  if (elements == 0) return No{"no elements"};
  Prepared prepared;
  prepared.launch = LaunchSoftmaxBackward;
  prepared.inplace_operands = 3;
  prepared.state = std::make_shared<const SoftmaxState>(
      SoftmaxState{rows_fn, elements / y.dims.back(), y.dims.back(),
                   UsefulThreads(request.num_threads, elements)});
  return prepared;
}

struct EmbeddingState {
  std::string op;
  bool is_i32 = false;
  int64_t count = 0, rows = 0, n = 0, padding = -1;
  BinaryFn add = nullptr;
};

bool LaunchEmbeddingBackward(const void* state, void* const* args,
                             LaunchContext& context) {
  const auto& s = *static_cast<const EmbeddingState*>(state);
  const auto* grad = static_cast<const float*>(args[0]);
  auto* out = static_cast<float*>(args[2]);
  std::memset(out, 0, static_cast<size_t>(s.rows * s.n) * sizeof(float));
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t row = s.is_i32 ? static_cast<const int32_t*>(args[1])[i]
                                 : static_cast<const int64_t*>(args[1])[i];
    if (row == s.padding) continue;
    if (row < 0 || row >= s.rows) {
      return context.Fail(absl::InvalidArgumentError(
          absl::StrCat(s.op, ": index ", row, " is out of range")));
    }
    float* to = out + row * s.n;
    s.add(to, grad + i * s.n, to, s.n, nullptr);
  }
  return true;
}

Verdict PrepareEmbeddingBackward(const KernelRequest& request) {
  const TensorType& indices = request.operands[1].type;
  if (request.Bool(4)) return No{"scales by frequency"};
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  if (indices.dtype != DType::kI64 && indices.dtype != DType::kI32) {
    return No{"indices are neither i64 nor i32"};
  }
  const TensorType& out = request.results[0].type;
  Prepared prepared;
  prepared.launch = LaunchEmbeddingBackward;
  prepared.state = std::make_shared<const EmbeddingState>(EmbeddingState{
      .op = request.def->name(),
      .is_i32 = indices.dtype == DType::kI32,
      .count = indices.num_elements(),
      .rows = out.dims[0],
      .n = out.dims[1],
      .padding = request.Int(3),
      .add = Simd().binary[static_cast<int>(Binary::kAdd)][static_cast<int>(
          Elem::kF32)][static_cast<int>(Form::kVV)]});
  return prepared;
}

}  // namespace

void RegisterBackward(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("aten.native_layer_norm_backward", kFloat, KernelRank::kFast,
               {"cpu.layer_norm_backward", PrepareLayerNormBackward});
  registry.Add("aten._softmax_backward_data", kFloat, KernelRank::kFast,
               {"cpu.softmax_backward", [](const KernelRequest& request) {
                  return PrepareSoftmaxBackward(request,
                                                Simd().softmax_backward);
                }});
  registry.Add("aten._log_softmax_backward_data", kFloat, KernelRank::kFast,
               {"cpu.log_softmax_backward", [](const KernelRequest& request) {
                  return PrepareSoftmaxBackward(request,
                                                Simd().log_softmax_backward);
                }});
  registry.Add("aten.embedding_dense_backward", kFloat, KernelRank::kFast,
               {"cpu.embedding_backward", PrepareEmbeddingBackward});
}

}  // namespace mica::cpu
