// Max pooling with the places of what it found, and gradients of pooling.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/tensor/tensor.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

// Elements of the last two axes, and how many such planes there are.
int64_t PlaneSize(const TensorType& type) {
  return type.dims[type.rank() - 1] * type.dims[type.rank() - 2];
}
int64_t NumPlanes(const TensorType& type) {
  return type.num_elements() / std::max<int64_t>(PlaneSize(type), 1);
}

bool IsUsual(const TensorType& type) {
  return type.is_row_major() && type.num_elements() > 0;
}

struct MaxState {
  MaxPoolArgs args;  // Of one plane, without addresses.
  int64_t planes = 0;
  int out_arg = 0;
};

bool LaunchMax(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const MaxState*>(state);
  MaxPoolArgs call = s.args;
  call.x = static_cast<const float*>(args[0]);
  call.out = static_cast<float*>(args[s.out_arg]);
  call.places = static_cast<int64_t*>(args[s.out_arg + 1]);
  call.scratch = static_cast<int32_t*>(args[s.out_arg + 2]);
  for (int64_t i = 0; i < s.planes; ++i) {
    Simd().training.max_pool(call);
    call.x += call.rows * call.cols;
    call.out += call.out_rows * call.out_cols;
    call.places += call.out_rows * call.out_cols;
  }
  return true;
}

Verdict PrepareMax(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  if (!request.results[0].is_used || !request.results[1].is_used) {
    return No{"only one of element and place is read"};
  }
  if (!IsUsual(x) || !IsUsual(out) || !IsUsual(request.results[1].type)) {
    return No{"not row-major"};
  }
  if (PlaneSize(x) > INT32_MAX) return No{"planes are too large"};
  const int rank = x.rank();
  const auto stride =
      request.Ints(2).empty() ? request.Ints(1) : request.Ints(2);
  auto state = std::make_shared<MaxState>();
  state->args = {.rows = x.dims[rank - 2],
                 .cols = x.dims[rank - 1],
                 .out_rows = out.dims[rank - 2],
                 .out_cols = out.dims[rank - 1],
                 .kernel_rows = Entry(request.Ints(1), 0),
                 .kernel_cols = Entry(request.Ints(1), 1),
                 .row_step = Entry(stride, 0),
                 .col_step = Entry(stride, 1),
                 .row_padding = Entry(request.Ints(3), 0),
                 .col_padding = Entry(request.Ints(3), 1),
                 .row_dilation = Entry(request.Ints(4), 0),
                 .col_dilation = Entry(request.Ints(4), 1)};
  state->planes = NumPlanes(x);
  state->out_arg = static_cast<int>(request.operands.size());
  Prepared prepared;
  prepared.launch = LaunchMax;
  prepared.scratch_bytes = AlignUp(state->args.out_cols * sizeof(int32_t));
  prepared.state = std::move(state);
  return prepared;
}

// One plane at a time: of the gradient and of the result.
struct BackwardState {
  int64_t planes = 0, grad_size = 0, out_size = 0;
  int indices_arg = 0, out_arg = 0;
  std::string op;
};

bool LaunchMaxBackward(const void* state, void* const* args,
                       LaunchContext& context) {
  const auto& s = *static_cast<const BackwardState*>(state);
  const auto* grad = static_cast<const float*>(args[0]);
  const auto* indices = static_cast<const int64_t*>(args[s.indices_arg]);
  auto* out = static_cast<float*>(args[s.out_arg]);
  const auto limit = static_cast<uint64_t>(s.out_size);
  for (int64_t i = 0; i < s.planes; ++i) {
    std::memset(out, 0, s.out_size * sizeof(float));
    for (int64_t j = 0; j < s.grad_size; ++j) {
      const auto place = static_cast<uint64_t>(indices[j]);
      if (place >= limit) {
        return context.Fail(absl::InvalidArgumentError(absl::StrCat(
            s.op, ": index ", indices[j], " is outside of its plane")));
      }
      out[place] += grad[j];
    }
    grad += s.grad_size;
    indices += s.grad_size;
    out += s.out_size;
  }
  return true;
}

Verdict PrepareMaxBackward(const KernelRequest& request, int indices_param) {
  const int indices = request.OperandIndex(indices_param);
  const TensorType& grad = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  if (!IsUsual(grad) || !IsUsual(out) ||
      !request.operands[indices].type.is_row_major()) {
    return No{"not row-major"};
  }
  auto state = std::make_shared<BackwardState>();
  state->planes = NumPlanes(out);
  state->grad_size = PlaneSize(grad);
  state->out_size = PlaneSize(out);
  state->indices_arg = indices;
  state->out_arg = static_cast<int>(request.operands.size());
  state->op = request.def->name();
  Prepared prepared;
  prepared.launch = LaunchMaxBackward;
  prepared.state = std::move(state);
  return prepared;
}

// The pixels begin..end that a place of one axis is a mean of, and how many
// it was divided by.
struct Part {
  int64_t begin = 0, end = 0, count = 0;
};

struct MeanState {
  std::vector<Part> rows, cols;
  int64_t planes = 0, out_rows = 0, out_cols = 0;
  double divisor = 0;  // In place of the counts, if not 0.
  int out_arg = 0;
};

bool LaunchMeanBackward(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const MeanState*>(state);
  const auto* grad = static_cast<const float*>(args[0]);
  auto* out = static_cast<float*>(args[s.out_arg]);
  for (int64_t i = 0; i < s.planes; ++i) {
    std::memset(out, 0, s.out_rows * s.out_cols * sizeof(float));
    for (const Part& row : s.rows) {
      for (const Part& col : s.cols) {
        const double count = s.divisor != 0
                                 ? s.divisor
                                 : static_cast<double>(row.count * col.count);
        const auto share = static_cast<float>(*grad++ / count);
        for (int64_t r = row.begin; r < row.end; ++r) {
          float* line = out + r * s.out_cols;
          for (int64_t c = col.begin; c < col.end; ++c) line[c] += share;
        }
      }
    }
    out += s.out_rows * s.out_cols;
  }
  return true;
}

// `part(axis from the end, place)` of planes of the gradient's size.
template <typename PartFn>
Verdict PrepareMeanBackward(const KernelRequest& request, double divisor,
                            const PartFn& part) {
  const TensorType& grad = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  if (!IsUsual(grad) || !IsUsual(out)) return No{"not row-major"};
  auto state = std::make_shared<MeanState>();
  const int rank = grad.rank();
  for (int64_t i = 0; i < grad.dims[rank - 2]; ++i) {
    state->rows.push_back(part(2, i));
  }
  for (int64_t i = 0; i < grad.dims[rank - 1]; ++i) {
    state->cols.push_back(part(1, i));
  }
  state->planes = NumPlanes(out);
  state->out_rows = out.dims[rank - 2];
  state->out_cols = out.dims[rank - 1];
  state->divisor = divisor;
  state->out_arg = static_cast<int>(request.operands.size());
  Prepared prepared;
  prepared.launch = LaunchMeanBackward;
  prepared.state = std::move(state);
  return prepared;
}

Verdict PrepareAverageBackward(const KernelRequest& request) {
  const TensorType& out = request.results[0].type;
  const auto stride =
      request.Ints(3).empty() ? request.Ints(2) : request.Ints(3);
  const bool counts_padding = request.Bool(6);
  const double divisor =
      request.Has(7) ? static_cast<double>(request.Int(7)) : 0;
  return PrepareMeanBackward(
      request, divisor, [&](int from_end, int64_t place) {
        const int axis = 2 - from_end;
        const int64_t size = out.dims[out.rank() - from_end];
        const int64_t padding = Entry(request.Ints(4), axis);
        const int64_t start = place * Entry(stride, axis) - padding;
        const int64_t end =
            std::min(start + Entry(request.Ints(2), axis), size + padding);
        Part part = {.begin = std::max<int64_t>(start, 0),
                     .end = std::min(end, size)};
        part.count = counts_padding ? end - start : part.end - part.begin;
        return part;
      });
}

Verdict PrepareAdaptiveBackward(const KernelRequest& request) {
  const TensorType& grad = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  return PrepareMeanBackward(request, 0, [&](int from_end, int64_t place) {
    const int64_t size = out.dims[out.rank() - from_end];
    const int64_t parts = grad.dims[grad.rank() - from_end];
    Part part = {.begin = place * size / parts,
                 .end = ((place + 1) * size + parts - 1) / parts};
    part.count = part.end - part.begin;
    return part;
  });
}

}  // namespace

void RegisterPoolTraining(KernelRegistry& registry) {
  auto add = [&registry](absl::string_view op, absl::string_view name,
                         PrepareFn prepare) {
    registry.Add({.op = absl::StrCat("aten.", op), .dtype = DType::kF32},
                 KernelRank::kFast,
                 {absl::StrCat("cpu.", name), std::move(prepare)});
  };
  add("max_pool2d_with_indices", "max_pool_with_places", PrepareMax);
  add("max_pool2d_with_indices_backward", "max_pool_backward",
      [](const KernelRequest& request) {
        return PrepareMaxBackward(request, 7);
      });
  add("adaptive_max_pool2d_backward", "max_pool_backward",
      [](const KernelRequest& request) {
        return PrepareMaxBackward(request, 2);
      });
  add("avg_pool2d_backward", "avg_pool_backward", PrepareAverageBackward);
  add("_adaptive_avg_pool2d_backward", "avg_pool_backward",
      PrepareAdaptiveBackward);
}

}  // namespace mica::cpu
