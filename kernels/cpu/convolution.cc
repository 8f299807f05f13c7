// Convolution as a product: the windows are laid out as the columns of a
// matrix, which the weight's rows then multiply.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "framework/tensor/tensor.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"

namespace mica::cpu {
namespace {

// One axis of the plane that the window slides over.
struct Axis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t in_stride = 0;  // Of x, in elements.

  // Where in x the window's tap `k` at `place` lies; may be outside.
  int64_t At(int64_t place, int64_t k) const {
    return place * stride - padding + k * dilation;
  }
  bool IsPointwise() const {
    return kernel == 1 && stride == 1 && padding == 0;
  }
};

constexpr int64_t kBytes = sizeof(float);

struct ConvState {
  Product product;
  Axis rows, cols;
  int64_t images = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // Of a group.
  int64_t image_stride = 0, channel_stride = 0;
  int64_t bias_stride = 0;
  bool has_columns = true;  // Else x itself is the matrix of windows.
  int bias_arg = -1, out_arg = -1, scratch_arg = -1;
  int num_threads = 1;

  int64_t places() const { return rows.out * cols.out; }
  // Of scratch memory, whole cache lines.
  int64_t column_floats() const {
    return has_columns ? AlignUp(depth() * places() * kBytes) / kBytes : 0;
  }
  int64_t depth() const { return in_channels * rows.kernel * cols.kernel; }
};

// One row of places under one tap: zeros where the window is outside of x.
void FillRow(const ConvState& s, const float* row, int64_t tap, float* to) {
  const Axis& axis = s.cols;
  // The places whose tap is inside: from the first with At() >= 0 on.
  const int64_t before = axis.padding - tap * axis.dilation;
  const int64_t begin = std::clamp<int64_t>(
      (before + axis.stride - 1) / axis.stride, 0, axis.out);
  const int64_t end = std::clamp<int64_t>(
      (axis.in + before + axis.stride - 1) / axis.stride, begin, axis.out);
  std::fill(to, to + begin, 0.0f);
  std::fill(to + end, to + axis.out, 0.0f);
  const int64_t step = axis.stride * axis.in_stride;
  const float* from = row + axis.At(begin, tap) * axis.in_stride;
  if (step == 1) {
    std::copy(from, from + (end - begin), to + begin);
  } else {
    for (int64_t i = begin; i < end; ++i) to[i] = from[(i - begin) * step];
  }
}

// Rows begin..end of the matrix: one for each channel and tap.
void FillColumns(const ConvState& s, const float* x, int64_t begin, int64_t end,
                 float* columns) {
  for (int64_t d = begin; d < end; ++d) {
    const int64_t col_tap = d % s.cols.kernel;
    const int64_t row_tap = d / s.cols.kernel % s.rows.kernel;
    const int64_t channel = d / s.cols.kernel / s.rows.kernel;
    for (int64_t i = 0; i < s.rows.out; ++i) {
      float* to = columns + d * s.places() + i * s.cols.out;
      const int64_t row = s.rows.At(i, row_tap);
      if (row < 0 || row >= s.rows.in) {
        std::fill(to, to + s.cols.out, 0.0f);
      } else {
        FillRow(s, x + channel * s.channel_stride + row * s.rows.in_stride,
                col_tap, to);
      }
    }
  }
}

void AddBias(const ConvState& s, const float* bias, float* out) {
  for (int64_t c = 0; c < s.out_channels; ++c) {
    const float value = bias[c * s.bias_stride];
    float* plane = out + c * s.places();
    for (int64_t i = 0; i < s.places(); ++i) plane[i] += value;
  }
}

void RunGroup(const ConvState& s, void* const* args, int64_t image,
              int64_t group) {
  const auto* x = static_cast<const float*>(args[0]) + image * s.image_stride +
                  group * s.in_channels * s.channel_stride;
  auto* scratch =
      static_cast<float*>(s.scratch_arg < 0 ? nullptr : args[s.scratch_arg]);
  const float* matrix = x;
  if (s.has_columns) {
    float* columns = scratch;
    Parallel(s.num_threads, s.depth(), [&](int64_t begin, int64_t end) {
      FillColumns(s, x, begin, end, columns);
    });
    matrix = columns;
    scratch += s.column_floats();
  }
  const int64_t first = group * s.out_channels;
  float* out = static_cast<float*>(args[s.out_arg]) +
               (image * s.groups * s.out_channels + first) * s.places();
  s.product.Run({.a = static_cast<const float*>(args[1]) + first * s.depth(),
                 .b = matrix,
                 .c = out,
                 .scratch = scratch});
  if (s.bias_arg >= 0) {
    AddBias(s,
            static_cast<const float*>(args[s.bias_arg]) + first * s.bias_stride,
            out);
  }
}

bool LaunchConvolution(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ConvState*>(state);
  for (int64_t image = 0; image < s.images; ++image) {
    for (int64_t group = 0; group < s.groups; ++group) {
      RunGroup(s, args, image, group);
    }
  }
  return true;
}

int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

// Axis `i` of the plane; the only one of a 1-d convolution is its columns.
Axis MakeAxis(const KernelRequest& request, int i) {
  const TensorType& x = request.operands[0].type;
  return {.in = x.dims[i + 2],
          .out = request.results[0].type.dims[i + 2],
          .kernel = request.operands[1].type.dims[i + 2],
          .stride = Entry(request.Ints(3), i),
          .padding = Entry(request.Ints(4), i),
          .dilation = Entry(request.Ints(5), i),
          .in_stride = x.EffectiveStrides()[i + 2]};
}

std::optional<std::string> SetState(const KernelRequest& request,
                                    ConvState& s) {
  const TensorType& x = request.operands[0].type;
  const TensorType& weight = request.operands[1].type;
  const TensorType& out = request.results[0].type;
  const int axes = x.rank() - 2;
  if (request.Bool(6)) return "is transposed";
  if (axes > 2) return "has more than two axes";
  if (!weight.is_row_major() || !out.is_row_major()) {
    return "weight or result is not row-major";
  }
  if (out.num_elements() == 0 || weight.num_elements() == 0) {
    return "is empty";
  }
  const Dims strides = x.EffectiveStrides();
  s.images = x.dims[0];
  s.groups = request.Int(8);
  s.in_channels = x.dims[1] / s.groups;
  s.out_channels = out.dims[1] / s.groups;
  s.image_stride = strides[0];
  s.channel_stride = strides[1];
  s.cols = MakeAxis(request, axes - 1);
  if (axes == 2) s.rows = MakeAxis(request, 0);
  s.bias_arg = request.OperandIndex(2);
  if (s.bias_arg >= 0) {
    s.bias_stride = request.operands[s.bias_arg].type.EffectiveStrides()[0];
  }
  s.out_arg = static_cast<int>(request.operands.size());
  s.num_threads = UsefulThreads(request.num_threads, s.depth() * s.places());
  const bool is_plane = s.cols.in_stride == 1 &&
                        (s.rows.in == 1 || s.rows.in_stride == s.cols.in);
  s.has_columns = !s.rows.IsPointwise() || !s.cols.IsPointwise() || !is_plane;
  return std::nullopt;
}

Verdict PrepareConvolution(const KernelRequest& request) {
  auto state = std::make_shared<ConvState>();
  ConvState& s = *state;
  if (auto no = SetState(request, s)) return No{*no};
  const ProductSpec spec = {
      .m = s.out_channels,
      .n = s.places(),
      .k = s.depth(),
      .a_row_stride = s.depth(),
      .b_row_stride = s.has_columns ? s.places() : s.channel_stride,
      .c_row_stride = s.places(),
      .num_threads = request.num_threads};
  if (auto no = Product::Prepare(spec, s.product)) return No{*no};
  Prepared prepared;
  prepared.scratch_bytes =
      (s.column_floats() + s.product.scratch_floats()) * kBytes;
  if (prepared.scratch_bytes > 0) s.scratch_arg = s.out_arg + 1;
  prepared.launch = LaunchConvolution;
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterConvolution(KernelRegistry& registry) {
  registry.Add({.op = "aten.convolution", .dtype = DType::kF32},
               KernelRank::kFast, {"cpu.windows", PrepareConvolution});
}

}  // namespace mica::cpu
