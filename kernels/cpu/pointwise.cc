#include "kernels/cpu/pointwise.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/axes.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise_tiles.h"
#include "kernels/cpu/row_pieces.h"
#include "kernels/cpu/streamed.h"

namespace mica::cpu {
namespace {

// Elements that go through a buffer at once.
constexpr int64_t kChunk = 512;

template <typename T>
Constant ConstantOf(T value) {
  Constant constant;
  std::memcpy(constant.bytes, &value, sizeof(value));
  return constant;
}

template <typename From>
Constant ConvertConstant(Elem elem, From value) {
  switch (elem) {
    case Elem::kF32:
      return ConstantOf(static_cast<float>(value));
    case Elem::kF64:
      return ConstantOf(static_cast<double>(value));
    case Elem::kI64:
      return ConstantOf(static_cast<int64_t>(value));
    case Elem::kI32:
      return ConstantOf(static_cast<int32_t>(value));
    case Elem::kBool:
      return ConstantOf(value != From{0});
  }
  return {};
}

// The result's axes first, then the sources'.
Axes AxesOf(const TensorType& out, absl::Span<const Source> sources) {
  absl::InlinedVector<const TensorType*, kMaxSources + 1> arrays = {&out};
  for (const Source& source : sources) arrays.push_back(source.type);
  return JoinedAxes(out.dims, arrays);
}

// Takes the two innermost dimensions as one if the inner one is no longer than
// `longest`. Returns the length of short rows, 0 if it left all as it was; then
// the operands' strides from row to row are in `row_strides`.
int64_t JoinShortRows(int num_operands, int64_t longest, Axes& axes,
                      int64_t* row_strides) {
  const size_t rank = axes.sizes.size();
  if (rank < 2 || axes.sizes[rank - 1] > longest ||
      axes.strides[0][rank - 2] != axes.sizes[rank - 1]) {
    return 0;
  }
  const int64_t short_row = axes.sizes.back();
  axes.sizes.pop_back();
  axes.sizes.back() *= short_row;
  for (int s = 0; s < num_operands; ++s) {
    row_strides[s] = axes.strides[s][rank - 2];
    axes.strides[s].erase(axes.strides[s].begin() + static_cast<int64_t>(rank) -
                          2);
  }
  return short_row;
}

void GatherShortRows(const PointwiseLoop::Input& input, const char* from,
                     int64_t row, int64_t rows, char* to) {
  const SpreadFn spread = input.bytes == 4   ? Simd().spread32
                          : input.bytes == 8 ? Simd().spread64
                                             : nullptr;
  if (input.stride == 0 && spread != nullptr) {
    return spread(from, input.short_row_stride, row, rows, to);
  }
  const int64_t bytes = row * input.bytes;
  const CopyRowsFn copy = input.stride == 1 ? CopyRowsOf(bytes) : nullptr;
  if (input.short_row_stride != 0 && copy != nullptr) {
    return copy(from, input.short_row_stride, rows, to);
  }
  const int64_t different = input.short_row_stride == 0 ? 1 : rows;
  for (int64_t r = 0; r < different; ++r) {
    GatherBytes(from + r * input.short_row_stride, input.bytes, input.stride,
                row, to + r * bytes);
  }
  if (different < rows) Repeat(to, bytes, rows);
}

// One row of one element of each source.
void RunSingles(const PointwiseLoop& loop, const char* const* in, char* out) {
  alignas(8) char converted[kMaxSources][8];
  const void* pieces[kMaxSources];
  for (int s = 0; s < loop.num_inputs; ++s) {
    pieces[s] = in[s];
    if (loop.inputs[s].convert == nullptr) continue;
    loop.inputs[s].convert(in[s], converted[s], 1);
    pieces[s] = converted[s];
  }
  loop.row(loop, pieces, out, 1);
  Repeat(out, loop.out_bytes, loop.inner);
}

// Puts elements start..start + n of a row of the source together; if they are
// the same in each chunk of the row, they are already.
void GatherChunk(const PointwiseLoop& loop, const PointwiseLoop::Input& input,
                 const char* in, int64_t start, int64_t n, bool is_first,
                 char* to) {
  if (input.has_short_rows) {
    if (input.short_row_stride == 0 && !is_first) return;
    const int64_t row = start / loop.short_row;
    GatherShortRows(input, in + row * input.short_row_stride, loop.short_row,
                    n / loop.short_row, to);
  } else if (input.stride != 0 || is_first) {
    GatherBytes(in + start * input.stride * input.bytes, input.bytes,
                input.stride, n, to);
  }
}

// Where a chunk of the result goes.
enum class Way {
  kDirect,
  kStreamed,   // Past the caches.
  kScattered,  // To elements with gaps between them.
};

// Elements begin..end of a row whose sources may have to be gathered and
// converted, by chunks; of short rows, by whole ones.
template <Way kWay = Way::kDirect>
void RunRow(const PointwiseLoop& loop, const char* const* in, char* out,
            int64_t begin, int64_t end) {
  constexpr bool kStreams = kWay == Way::kStreamed;
  alignas(64) char buffer[kWay == Way::kDirect ? 1 : kChunk * 8];
  constexpr int64_t kGathered = kChunk * 8 + 2 * kSpreadSlack;
  alignas(64) char gathered[kMaxSources][kGathered];
  alignas(64) char converted[kMaxSources][kChunk * 8];
  // What comes from memory isn't to wait while much is computed with.
  const int64_t most = kStreams ? kChunk / 4 : kChunk;
  const int64_t chunk =
      loop.short_row == 0 ? most : most / loop.short_row * loop.short_row;
  for (int64_t start = begin; start < end; start += chunk) {
    const int64_t n = std::min(chunk, end - start);
    const void* pieces[kMaxSources];
    for (int s = 0; s < loop.num_inputs; ++s) {
      const PointwiseLoop::Input& input = loop.inputs[s];
      const void* piece = in[s] + start * input.stride * input.bytes;
      if (input.is_gathered) {
        GatherChunk(loop, input, in[s], start, n, start == begin, gathered[s]);
        piece = gathered[s];
      }
      if (input.convert != nullptr) {
        input.convert(piece, converted[s], input.is_single ? 1 : n);
        piece = converted[s];
      }
      pieces[s] = piece;
    }
    char* const to = out + start * loop.out_stride * loop.out_bytes;
    if constexpr (kWay == Way::kStreamed) {
      loop.row(loop, pieces, buffer, n);
      StreamOut(buffer, to, n * loop.out_bytes);
    } else if constexpr (kWay == Way::kScattered) {
      loop.row(loop, pieces, buffer, n);
      ScatterBytes(buffer, loop.out_bytes, n, loop.out_stride, to);
    } else {
      loop.row(loop, pieces, to, n);
    }
  }
  if constexpr (kStreams) EndStream();
}

// True if rows can run on the operands' own memory.
bool IsDirect(const PointwiseLoop& loop) {
  if (loop.out_stride != 1) return false;
  for (int s = 0; s < loop.num_inputs; ++s) {
    const PointwiseLoop::Input& input = loop.inputs[s];
    if (input.is_gathered || input.convert != nullptr) return false;
  }
  return true;
}

// Where a source begins.
const char* Begin(const PointwiseLoop& loop, int s, void* const* args) {
  const PointwiseLoop::Input& input = loop.inputs[s];
  return static_cast<const char*>(
      input.arg >= 0 ? args[input.arg]
                     : static_cast<const void*>(input.constant.bytes));
}

// Where the sources and the result of a row begin.
struct Places {
  const char* in[kMaxSources] = {};
  char* out = nullptr;

  // Moves on by so many steps of the outer dimension.
  void Step(const PointwiseLoop& loop, int dim, int64_t steps) {
    out += steps * loop.out_outer_strides[dim];
    for (int s = 0; s < loop.num_inputs; ++s) {
      in[s] += steps * loop.inputs[s].outer_strides[dim];
    }
  }
};

// Rows that follow each other along the innermost of the outer dimensions.
template <bool kDirect>
void RunBlock(const PointwiseLoop& loop, const Places& first, int64_t rows) {
  const int last = static_cast<int>(loop.outer_sizes.size()) - 1;
  const void* in[kMaxSources] = {first.in[0], first.in[1], first.in[2]};
  int64_t steps[kMaxSources] = {};
  for (int s = 0; s < loop.num_inputs && last >= 0; ++s) {
    steps[s] = loop.inputs[s].outer_strides[last];
  }
  const int64_t out_step = last >= 0 ? loop.out_outer_strides[last] : 0;
  char* out = first.out;
  if (kDirect && loop.binary_rows != nullptr) {
    loop.binary_rows({.a = in[0],
                      .b = in[1],
                      .out = out,
                      .a_step = steps[0],
                      .b_step = steps[1],
                      .out_step = out_step,
                      .rows = rows,
                      .n = loop.inner,
                      .alpha = loop.alpha.bytes});
    return;
  }
  for (int64_t row = 0; row < rows; ++row, out += out_step) {
    if constexpr (kDirect) {
      loop.row(loop, in, out, loop.inner);
    } else {
      const char* from[kMaxSources];
      for (int s = 0; s < kMaxSources; ++s) {
        from[s] = static_cast<const char*>(in[s]);
      }
      if (loop.out_stride == 1) {
        RunRow(loop, from, out, 0, loop.inner);
      } else {
        RunRow<Way::kScattered>(loop, from, out, 0, loop.inner);
      }
    }
    for (int s = 0; s < kMaxSources; ++s) {
      in[s] = static_cast<const char*>(in[s]) + steps[s];
    }
  }
}

template <bool kDirect>
void RunRows(const PointwiseLoop& loop, void* const* args, int64_t begin,
             int64_t end) {
  const int rank = static_cast<int>(loop.outer_sizes.size());
  absl::InlinedVector<int64_t, 4> index(rank, 0);
  Places places{.out = static_cast<char*>(args[loop.out_arg])};
  for (int s = 0; s < loop.num_inputs; ++s) {
    places.in[s] = Begin(loop, s, args);
  }
  int64_t rest = begin;
  for (int d = rank - 1; d >= 0; --d) {
    index[d] = rest % loop.outer_sizes[d];
    rest /= loop.outer_sizes[d];
    places.Step(loop, d, index[d]);
  }
  for (int64_t row = begin; row < end;) {
    int64_t rows = 1;
    if (rank > 0 && !loop.has_equal_rows) {
      rows = std::min(end - row, loop.outer_sizes[rank - 1] - index[rank - 1]);
    }
    if (loop.has_equal_rows) {
      RunSingles(loop, places.in, places.out);
    } else {
      RunBlock<kDirect>(loop, places, rows);
    }
    row += rows;
    if (rank == 0) continue;
    index[rank - 1] += rows;
    places.Step(loop, rank - 1, rows);
    for (int d = rank - 1; d > 0 && index[d] == loop.outer_sizes[d]; --d) {
      places.Step(loop, d, -index[d]);
      index[d] = 0;
      ++index[d - 1];
      places.Step(loop, d - 1, 1);
    }
  }
}

// Read and written.
int64_t BytesOf(const PointwiseLoop& loop) {
  int64_t bytes = loop.out_bytes;
  for (int s = 0; s < loop.num_inputs; ++s) {
    bytes += std::abs(loop.inputs[s].stride) * loop.inputs[s].bytes;
  }
  return bytes * loop.inner;
}

bool IsInplace(const PointwiseLoop& loop, void* const* args) {
  for (int s = 0; s < loop.num_inputs; ++s) {
    const int arg = loop.inputs[s].arg;
    if (arg >= 0 && args[arg] == args[loop.out_arg]) return true;
  }
  return false;
}

template <bool kDirect>
bool LaunchRows(const void* state, void* const* args, LaunchContext&) {
  const auto& loop = *static_cast<const PointwiseLoop*>(state);
  int64_t rows = 1;
  for (int64_t size : loop.outer_sizes) rows *= size;
  if (rows == 0 || loop.inner == 0) return true;
  if (!kDirect && rows == 1 && !loop.has_equal_rows) {
    const char* in[kMaxSources];
    for (int s = 0; s < loop.num_inputs; ++s) in[s] = Begin(loop, s, args);
    char* const out = static_cast<char*>(args[loop.out_arg]);
    const int64_t unit = std::max<int64_t>(loop.short_row, 1);
    const bool may_stream =
        IsWorthStreaming(BytesOf(loop)) && !IsInplace(loop, args);
    const auto run = loop.out_stride != 1 ? RunRow<Way::kScattered>
                     : may_stream         ? RunRow<Way::kStreamed>
                                          : RunRow<Way::kDirect>;
    Parallel(loop.num_threads, loop.inner / unit,
             [&](int64_t begin, int64_t end) {
               run(loop, in, out, begin * unit, end * unit);
             });
    return true;
  }
  Parallel(loop.num_threads, rows, [&](int64_t begin, int64_t end) {
    RunRows<kDirect>(loop, args, begin, end);
  });
  return true;
}

// One row on the operands' own memory, cut for the threads.
bool LaunchFlat(const void* state, void* const* args, LaunchContext&) {
  const auto& loop = *static_cast<const PointwiseLoop*>(state);
  Parallel(loop.num_threads, loop.inner, [&](int64_t begin, int64_t end) {
    const void* in[kMaxSources];
    for (int s = 0; s < loop.num_inputs; ++s) {
      const PointwiseLoop::Input& input = loop.inputs[s];
      in[s] = input.arg >= 0 ? static_cast<const char*>(args[input.arg]) +
                                   begin * input.stride * input.bytes
                             : static_cast<const void*>(input.constant.bytes);
    }
    loop.row(loop, in,
             static_cast<char*>(args[loop.out_arg]) + begin * loop.out_bytes,
             end - begin);
  });
  return true;
}

// The same with a result too large for the caches.
bool LaunchStreamed(const void* state, void* const* args,
                    LaunchContext& context) {
  const auto& loop = *static_cast<const PointwiseLoop*>(state);
  if (IsInplace(loop, args)) return LaunchFlat(state, args, context);
  char* const out = static_cast<char*>(args[loop.out_arg]);
  const int64_t most = kStreamBytes / loop.out_bytes;
  Parallel(loop.num_threads, loop.inner, [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[kStreamBytes];
    for (int64_t i = begin; i < end; i += most) {
      const int64_t n = std::min(most, end - i);
      const void* in[kMaxSources];
      for (int s = 0; s < loop.num_inputs; ++s) {
        const PointwiseLoop::Input& input = loop.inputs[s];
        in[s] = Begin(loop, s, args) + i * input.stride * input.bytes;
      }
      loop.row(loop, in, buffer, n);
      StreamOut(buffer, out + i * loop.out_bytes, n * loop.out_bytes);
    }
    EndStream();
  });
  return true;
}

// The tiny launches: one thread, flat.
bool LaunchFlatUnary(const void* state, void* const* args, LaunchContext&) {
  const auto& loop = *static_cast<const PointwiseLoop*>(state);
  loop.unary(args[loop.inputs[0].arg], args[loop.out_arg], loop.inner);
  return true;
}

bool LaunchFlatBinary(const void* state, void* const* args, LaunchContext&) {
  const auto& loop = *static_cast<const PointwiseLoop*>(state);
  const auto& a = loop.inputs[0];
  const auto& b = loop.inputs[1];
  loop.binary(a.arg >= 0 ? args[a.arg] : a.constant.bytes,
              b.arg >= 0 ? args[b.arg] : b.constant.bytes, args[loop.out_arg],
              loop.inner, loop.alpha.bytes);
  return true;
}

LaunchFn ChooseLaunch(const PointwiseLoop& loop) {
  if (const LaunchFn tiled = TiledLaunch(loop); tiled != nullptr) return tiled;
  if (!IsDirect(loop)) return LaunchRows<false>;
  if (loop.has_equal_rows) return LaunchRows<true>;
  if (!loop.IsFlat()) return LaunchRows<true>;
  if (IsWorthStreaming(BytesOf(loop))) return LaunchStreamed;
  if (loop.num_threads == 1 && loop.unary != nullptr &&
      loop.inputs[0].arg >= 0) {
    return LaunchFlatUnary;
  }
  if (loop.num_threads == 1 && loop.binary != nullptr) return LaunchFlatBinary;
  return LaunchFlat;
}

std::optional<Constant> ConstantFrom(const Argument& argument, Elem elem) {
  if (const auto* flag = std::get_if<bool>(&argument)) {
    return MakeConstant(elem, static_cast<int64_t>(*flag));
  }
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return MakeConstant(elem, *integer);
  }
  const auto* number = std::get_if<double>(&argument);
  if (number == nullptr) return std::nullopt;
  if (elem == Elem::kI64 || elem == Elem::kI32) return std::nullopt;
  return MakeConstant(elem, *number);
}

// Fills the input for a source whose innermost stride is `stride`.
std::optional<std::string> SetInput(const Source& source, Elem elem,
                                    bool keeps_type, int64_t stride,
                                    PointwiseLoop::Input& input) {
  input.arg = source.arg;
  input.stride = stride;
  input.is_single = stride == 0;
  input.is_gathered = stride != 0 && stride != 1;
  if (source.type == nullptr) {
    const auto constant = ConstantFrom(source.constant, elem);
    if (!constant.has_value()) return "a constant of another category";
    input.constant = *constant;
    input.bytes = kElemBytes[static_cast<int>(elem)];
    return std::nullopt;
  }
  const auto own = ElemOf(source.type->dtype);
  if (!own.has_value()) {
    return absl::StrCat("no vector loop for ", DTypeName(source.type->dtype));
  }
  input.bytes = kElemBytes[static_cast<int>(*own)];
  if (*own != elem && !keeps_type) {
    input.convert =
        Simd().convert[static_cast<int>(*own)][static_cast<int>(elem)];
  }
  return std::nullopt;
}

// Whether some array has another type than is computed in.
bool NeedsConversion(absl::Span<const Source> sources, Elem elem,
                     absl::Span<const bool> keeps_type) {
  for (size_t s = 0; s < sources.size(); ++s) {
    if (sources[s].type == nullptr || keeps_type[s]) continue;
    if (sources[s].type->num_elements() == 1) continue;
    if (ElemOf(sources[s].type->dtype) != elem) return true;
  }
  return false;
}

template <typename T>
void FillLoop(const void* value, void* out, int64_t n) {
  T element;
  std::memcpy(&element, value, sizeof(element));
  constexpr int64_t kFew = 64;
  std::fill_n(static_cast<T*>(out), std::min(n, kFew), element);
  // A copy has wider stores than this file may use.
  if (n > kFew) Repeat(static_cast<char*>(out), sizeof(T), n);
}

}  // namespace

std::optional<Elem> ElemOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Elem::kF32;
    case DType::kF64:
      return Elem::kF64;
    case DType::kI64:
      return Elem::kI64;
    case DType::kI32:
      return Elem::kI32;
    case DType::kBool:
      return Elem::kBool;
    default:
      return std::nullopt;
  }
}

Constant MakeConstant(Elem elem, double value) {
  return ConvertConstant(elem, value);
}

Constant MakeConstant(Elem elem, int64_t value) {
  return ConvertConstant(elem, value);
}

UnaryFn FillLoopOf(int64_t bytes) {
  switch (bytes) {
    case 1:
      return FillLoop<uint8_t>;
    case 2:
      return FillLoop<uint16_t>;
    case 4:
      return FillLoop<uint32_t>;
    default:
      return FillLoop<uint64_t>;
  }
}

std::optional<Source> SourceOf(const KernelRequest& request, int param) {
  if (!request.Has(param)) return std::nullopt;
  const int index = request.OperandIndex(param);
  if (index >= 0) {
    return Source{.arg = index, .type = &request.operands[index].type};
  }
  return Source{.constant = (*request.arguments)[param]};
}

bool PointwiseLoop::IsFlat() const {
  return outer_sizes.empty() && !has_equal_rows && IsDirect(*this);
}

std::optional<std::string> LayOut(const KernelRequest& request,
                                  absl::Span<const Source> sources, Elem elem,
                                  absl::Span<const bool> keeps_type,
                                  PointwiseLoop& loop) {
  const TensorType& out = request.results[0].type;
  const auto out_elem = ElemOf(out.dtype);
  if (!out_elem.has_value()) {
    return absl::StrCat("no vector loop for ", DTypeName(out.dtype));
  }
  const int num_operands = static_cast<int>(sources.size()) + 1;
  Axes axes = AxesOf(out, sources);
  if (axes.sizes.empty()) {
    axes.sizes.push_back(1);
    axes.strides[0].push_back(1);
    for (int s = 1; s < num_operands; ++s) axes.strides[s].push_back(0);
  }
  loop.out_stride = axes.sizes.back() > 1 ? axes.strides[0].back() : 1;
  if (loop.out_stride < 1) return "the result's elements are the same memory";
  if (NeedsConversion(sources, elem, keeps_type)) {
    loop.longest_short_row = std::max(loop.longest_short_row, kChunk / 8);
  }
  int64_t row_strides[kMaxSources + 1] = {};
  loop.short_row =
      JoinShortRows(num_operands, loop.longest_short_row, axes, row_strides);
  const size_t inner = axes.sizes.size() - 1;
  loop.num_inputs = static_cast<int>(sources.size());
  loop.out_arg = static_cast<int>(request.operands.size());
  loop.out_bytes = kElemBytes[static_cast<int>(*out_elem)];
  loop.inner = axes.sizes[inner];
  loop.outer_sizes.assign(axes.sizes.begin(), axes.sizes.begin() + inner);
  for (size_t d = 0; d < inner; ++d) {
    loop.out_outer_strides.push_back(axes.strides[0][d] * loop.out_bytes);
  }
  bool all_single = true;
  for (int s = 0; s < loop.num_inputs; ++s) {
    PointwiseLoop::Input& input = loop.inputs[s];
    const auto& strides = axes.strides[s + 1];
    auto reason =
        SetInput(sources[s], elem, keeps_type[s], strides[inner], input);
    if (reason.has_value()) return reason;
    const int64_t row_stride = row_strides[s + 1];
    if (row_stride != strides[inner] * loop.short_row) {
      input.is_single = false;
      input.is_gathered = input.has_short_rows = true;
      input.short_row_stride = row_stride * input.bytes;
    }
    for (size_t d = 0; d < inner; ++d) {
      input.outer_strides.push_back(strides[d] * input.bytes);
    }
    all_single = all_single && input.is_single;
  }
  if (all_single && loop.num_inputs > 0) {
    if (loop.out_stride != 1) return "rows of one element have gaps";
    // One element is an array of one.
    loop.inputs[0].is_single = false;
    loop.has_equal_rows = loop.inner != 1;
  }
  return std::nullopt;
}

bool SetBinary(Binary op, Elem elem, PointwiseLoop& loop) {
  const Form form = loop.inputs[0].is_single   ? Form::kSV
                    : loop.inputs[1].is_single ? Form::kVS
                                               : Form::kVV;
  const int o = static_cast<int>(op), e = static_cast<int>(elem);
  loop.binary = Simd().binary[o][e][static_cast<int>(form)];
  loop.binary_rows = Simd().binary_rows[o][e][static_cast<int>(form)];
  return loop.binary != nullptr;
}

Prepared Finish(const KernelRequest& request, absl::Span<const Source> sources,
                std::shared_ptr<PointwiseLoop> loop) {
  const TensorType& out = request.results[0].type;
  Prepared prepared;
  prepared.never_fails = true;
  loop->num_threads = UsefulThreads(request.num_threads, out.num_elements());
  for (size_t s = 0; s < sources.size(); ++s) {
    const TensorType* type = sources[s].type;
    if (type == nullptr || type->dims != out.dims ||
        type->EffectiveStrides() != out.EffectiveStrides() ||
        ElementBytes(type->dtype) != ElementBytes(out.dtype)) {
      continue;
    }
    prepared.inplace_operands |= 1u << sources[s].arg;
  }
  prepared.launch = ChooseLaunch(*loop);
  prepared.state = std::move(loop);
  return prepared;
}

}  // namespace mica::cpu
