// Convolution with 3 by 3 taps and a frozen weight by Winograd's method, where
// the fewer multiplications outweigh the larger weight. Its rounding error is
// relative to the largest number that a window sees, about that of the plain
// convolution twice.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"
#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

using Param = ConvolutionParam;

constexpr int64_t kBytes = sizeof(float);
constexpr int64_t kTaps = 9, kPoints = 16;
// Multiplications of the plain convolution that are worth a thread.
constexpr double kWorkPerThread = 256 * 1024;

struct State {
  // All that doesn't depend on the run: addresses, begin and end are missing.
  WinogradArgs args;
  TensorType weight;  // As given.
  int bias_arg = -1, residual_arg = -1, out_arg = -1;
  int64_t images = 0, patches = 0;
  int64_t scratch_each = 0;  // Bytes, of a thread.
  std::vector<float> zeros;
  int num_threads = 1;

  int64_t channels() const { return args.conv.window.channels; }
  int64_t columns() const { return args.conv.columns; }
  // The packed weight: the transformed one, then the plain one.
  int64_t transformed_floats() const {
    return kPoints * Simd().PackedFloats(columns(), channels());
  }
  int64_t plain_floats() const {
    return Simd().PackedFloats(columns(), channels() * kTaps);
  }
};

absl::Status Pack(const State& s, const void* from, void* to) {
  const auto* weight = static_cast<const float*>(from);
  std::vector<float> plain;
  if (!s.weight.is_row_major()) {
    plain.resize(s.weight.num_elements());
    CopyRowMajor(s.weight, weight, plain.data());
    weight = plain.data();
  }
  auto* packed = static_cast<float*>(to);
  Simd().pack_winograd(weight, s.columns(), s.channels(), packed);
  Simd().pack_convolution(weight, s.columns(), s.channels(), kTaps,
                          packed + s.transformed_floats());
  return absl::OkStatus();
}

// Cut for the threads by patches, or by columns if those are few.
bool Launch(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const State*>(state);
  auto pointer = [args](int arg) {
    return arg < 0 ? nullptr : static_cast<float*>(args[arg]);
  };
  WinogradArgs whole = s.args;
  whole.weight = pointer(Param::kWeight);
  whole.conv.weight = whole.weight + s.transformed_floats();
  whole.conv.window.x = pointer(Param::kX);
  whole.conv.window.out = pointer(s.out_arg);
  whole.conv.bias = pointer(s.bias_arg);
  whole.conv.residual = pointer(s.residual_arg);
  whole.conv.zeros = s.zeros.data();
  char* scratch = static_cast<char*>(args[s.out_arg + 1]);
  const int64_t panel = Simd().gemm_cols;
  const int64_t panels = (s.columns() + panel - 1) / panel;
  auto run = [&](WinogradArgs part, int i, int64_t begin, int64_t end) {
    part.begin = begin;
    part.end = end;
    part.conv.scratch = scratch + i * s.scratch_each;
    Simd().winograd(part);
  };
  if (s.num_threads == 1 || s.patches >= panels * Simd().gemm_rows) {
    ParallelPieces(
        s.num_threads, s.patches,
        [&](int i, int64_t begin, int64_t end) { run(whole, i, begin, end); });
    return true;
  }
  ParallelPieces(s.num_threads, panels, [&](int i, int64_t begin, int64_t end) {
    WinogradArgs part = whole;
    part.conv =
        Columns(whole.conv, begin * panel, std::min(end * panel, s.columns()),
                s.channels() * kTaps);
    part.weight += begin * panel * s.channels() * kPoints;
    run(part, i, 0, s.patches);
  });
  return true;
}

std::optional<std::string> SetImages(const KernelRequest& request, State& s) {
  const TensorType& out_type = request.results[0].type;
  const Image x = ImageOf(request.operands[Param::kX].type);
  const Image out = ImageOf(out_type);
  if (!x.HasChannelsLast() || x.c != s.weight.dims[1]) {
    return "the channels aren't last";
  }
  ConvolutionArgs& conv = s.args.conv;
  WindowArgs& w = conv.window;
  w.x_image_stride = x.n_stride;
  w.x_row_stride = x.h_stride;
  w.x_col_stride = x.w_stride;
  w.in_rows = x.h;
  w.in_cols = x.w;
  w.out_rows = out.h;
  w.out_cols = out.w;
  w.kernel_rows = w.kernel_cols = 3;
  w.channels = x.c;
  w.row_padding = Entry(request.Ints(Param::kPadding), 0);
  w.col_padding = Entry(request.Ints(Param::kPadding), 1);
  std::optional<int64_t> stride = out.PixelStride();
  if (!stride.has_value()) return "the result's channels aren't last";
  w.out_pixel_stride = *stride;
  conv.columns = out.c;
  s.images = out.n;
  s.patches = out.n * ((out.h + 1) / 2) * ((out.w + 1) / 2);
  if (s.residual_arg < 0) return std::nullopt;
  stride = ImageOf(request.operands[s.residual_arg].type).PixelStride();
  if (!stride.has_value()) return "the residual's channels aren't last";
  conv.residual_pixel_stride = *stride;
  return std::nullopt;
}

bool IsOnes(absl::Span<const int64_t> list) {
  return std::all_of(list.begin(), list.end(),
                     [](int64_t entry) { return entry == 1; });
}

std::optional<std::string> SetState(const KernelRequest& request, State& s) {
  const TensorType& out = request.results[0].type;
  s.weight = request.operands[Param::kWeight].type;
  if (!request.operands[Param::kWeight].is_frozen) {
    return "the weight isn't frozen";
  }
  if (request.Bool(Param::kTransposed)) return "is transposed";
  if (request.Int(Param::kGroups) != 1) return "has groups";
  if (request.operands[Param::kX].type.rank() != 4 || s.weight.rank() != 4 ||
      s.weight.dims[2] != 3 || s.weight.dims[3] != 3) {
    return "the taps aren't 3 by 3";
  }
  if (!IsOnes(request.Ints(Param::kStride))) return "steps over pixels";
  if (!IsOnes(request.Ints(Param::kDilation))) return "is dilated";
  if (out.num_elements() == 0 || s.weight.num_elements() == 0) {
    return "is empty";
  }
  s.out_arg = static_cast<int>(request.operands.size());
  s.bias_arg = request.OperandIndex(Param::kBias);
  if (s.bias_arg >= 0 && !request.operands[s.bias_arg].type.is_row_major()) {
    return "the bias has gaps";
  }
  if (request.arguments->size() > Param::kActivation) {
    s.residual_arg = request.OperandIndex(Param::kResidual);
    const auto activation = ActivationNamed(request.String(Param::kActivation));
    if (!activation.has_value()) return "an unknown activation";
    s.args.conv.activation = *activation;
  }
  return SetImages(request, s);
}

// Whether it is faster than the plain convolution, by an estimate of both
// times in products of a vector.
bool Pays(const State& s) {
  constexpr double kLane = 16;
  // Of a vector's pixels or sums of a patch into points, or back.
  constexpr double kTransform = 48;
  // Of a float of weight that comes from memory, as all do once, and of one
  // that comes from a cache, as they do for each further block of patches.
  constexpr double kFetch = 1.5, kFetchAgain = 0.25;
  const double vectors = std::ceil(s.columns() / kLane);
  const double weights = static_cast<double>(s.channels()) * vectors * kLane;
  const double pixels = s.images * s.args.conv.window.out_rows *
                        static_cast<double>(s.args.conv.window.out_cols);
  const double plain =
      kTaps * (pixels * s.channels() * vectors + kFetch * weights);
  const double patches = static_cast<double>(s.patches);
  const double blocks = std::ceil(patches / s.args.block);
  const double winograd =
      kPoints * (patches * s.channels() * vectors +
                 (kFetch + kFetchAgain * (blocks - 1)) * weights) +
      kTransform * patches * (s.channels() / kLane + vectors);
  return winograd < 0.9 * plain;
}

Verdict PrepareWinograd(const KernelRequest& request) {
  auto state = std::make_shared<State>();
  State& s = *state;
  if (auto no = SetState(request, s)) return No{*no};
  s.args.block = Simd().winograd_block(s.channels(), s.patches);
  if (!Pays(s)) return No{"the plain convolution is faster"};
  const double work =
      static_cast<double>(request.results[0].type.num_elements()) *
      static_cast<double>(s.channels() * kTaps);
  s.num_threads = static_cast<int>(
      std::clamp(work / kWorkPerThread, 1.0,
                 static_cast<double>(std::max(request.num_threads, 1))));
  s.zeros.assign(s.channels(), 0.0f);
  s.scratch_each =
      AlignUp(Simd().winograd_scratch_bytes(s.args.conv.window, s.args.block));
  Prepared prepared;
  prepared.launch = Launch;
  prepared.scratch_bytes = s.scratch_each * s.num_threads;
  // A patch's residual is read before its result is written.
  if (s.residual_arg >= 0) prepared.inplace_operands = 1u << s.residual_arg;
  prepared.packs.push_back(
      {.operand = Param::kWeight,
       .bytes = (s.transformed_floats() + s.plain_floats()) * kBytes,
       .pack = [state](const void* from, void* to) {
         return Pack(*state, from, to);
       }});
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterWinograd(KernelRegistry& registry) {
  for (absl::string_view op : {"aten.convolution", "mica.convolution"}) {
    registry.Add({.op = std::string(op), .dtype = DType::kF32},
                 KernelRank::kFast, {"cpu.winograd", PrepareWinograd});
  }
}

}  // namespace mica::cpu
