// Kernels for numbers of 16 bits: the float32 kernel of the same op on widened
// operands, its results narrowed. That is what eager does too, element by
// element: it computes in float32 and rounds once, at an op's end.
//
// Where all operands lie as the result does it goes piece by piece, so that
// what is widened stays in the first-level cache, and so it does row by row in
// ops along the last axes (widened_rows.cc); else whole operands are widened
// into scratch memory. Frozen ones are widened once, by the Binding.
//
// Registered for ops where this was measured to beat ATen's own kernels.

#include "kernels/cpu/widened.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/kernel/kernel_around.h"
#include "framework/tensor/tensor.h"
#include "kernels/all.h"
#include "kernels/cpu/aten_wins.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

std::optional<Half> HalfOf(DType dtype) {
  if (dtype == DType::kBF16) return Half::kBFloat;
  if (dtype == DType::kF16) return Half::kHalf;
  return std::nullopt;
}

bool IsHalf(const KernelRequest& request) {
  const auto is_half = [](const Operand& operand) {
    return HalfOf(operand.type.dtype).has_value();
  };
  return std::any_of(request.operands.begin(), request.operands.end(),
                     is_half) ||
         std::any_of(request.results.begin(), request.results.end(), is_half);
}

// The request with float32 in place of 16 bits.
KernelRequest Widen(const KernelRequest& request) {
  KernelRequest wide = request;
  const auto widen = [](Operand& operand) {
    if (HalfOf(operand.type.dtype).has_value()) {
      operand.type.dtype = DType::kF32;
    }
  };
  for (Operand& operand : wide.operands) widen(operand);
  for (Operand& result : wide.results) widen(result);
  return wide;
}

// The first float32 kernel that takes the request.
std::optional<Prepared> PrepareWide(const KernelRequest& request) {
  for (const Argument& argument : *request.arguments) {
    if (std::holds_alternative<DType>(argument)) return std::nullopt;
  }
  const KernelKey key{.op = request.def->name(),
                      .dtype = request.operands[0].type.dtype};
  for (const Kernel& kernel : AllKernels().FindFast(key)) {
    Verdict verdict = kernel.prepare(request);
    if (auto* prepared = std::get_if<Prepared>(&verdict)) {
      return std::move(*prepared);
    }
  }
  return std::nullopt;
}

bool IsPlain(const Prepared& prepared) {
  return prepared.never_fails && prepared.scratch_bytes == 0 &&
         prepared.packs.empty() && prepared.make_instance == nullptr;
}

namespace {

// An operand or a result of a launch.
struct Lane {
  ConvertFn widen = nullptr;   // Of an operand of 16 bits.
  ConvertFn narrow = nullptr;  // Of a result of 16 bits.
  int64_t count = 0;           // Elements to convert.
  int64_t offset = 0;          // Of the float32 ones in the scratch memory.
  int64_t bytes = 0;           // Of an element as it is given.
  bool is_single = false;      // One element for all pieces.
};

// Piece by piece.

struct PiecesState {
  Prepared piece, rest;  // The wide kernel, of a whole piece and of the last.
  int64_t count = 0;     // Elements in all.
  absl::InlinedVector<Lane, 4> lanes;
  int num_threads = 1;
};

constexpr int64_t kPiece = 2048;
constexpr int kMostLanes = 5;

bool RunPiece(const PiecesState& s, void* const* args, int64_t index,
              LaunchContext& context) {
  alignas(kBufferAlignment) float wide[kMostLanes][kPiece];
  const int64_t start = index * kPiece;
  const int64_t n = std::min(kPiece, s.count - start);
  void* wide_args[kMostLanes];
  for (size_t i = 0; i < s.lanes.size(); ++i) {
    const Lane& lane = s.lanes[i];
    char* const given =
        static_cast<char*>(args[i]) + (lane.is_single ? 0 : start * lane.bytes);
    const bool is_same = lane.widen == nullptr && lane.narrow == nullptr;
    wide_args[i] = is_same ? static_cast<void*>(given) : wide[i];
    if (lane.widen != nullptr) {
      lane.widen(given, wide[i], lane.is_single ? 1 : n);
    }
  }
  const Prepared& kernel = n == kPiece ? s.piece : s.rest;
  if (!kernel.launch(kernel.state.get(), wide_args, context)) return false;
  for (size_t i = 0; i < s.lanes.size(); ++i) {
    const Lane& lane = s.lanes[i];
    if (lane.narrow == nullptr) continue;
    lane.narrow(wide[i], static_cast<char*>(args[i]) + start * lane.bytes, n);
  }
  return true;
}

bool LaunchPieces(const void* state, void* const* args,
                  LaunchContext& context) {
  const auto& s = *static_cast<const PiecesState*>(state);
  const int64_t num_pieces = (s.count + kPiece - 1) / kPiece;
  Parallel(s.num_threads, num_pieces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) RunPiece(s, args, i, context);
  });
  return true;
}

// The wide kernel for `n` elements. It has to be one that keeps nothing and
// never fails.
std::optional<Prepared> PreparePiece(const KernelRequest& request,
                                     const PiecesState& state, int64_t n) {
  KernelRequest piece = Widen(request);
  piece.num_threads = 1;
  for (size_t i = 0; i < state.lanes.size(); ++i) {
    Operand& operand = i < piece.operands.size()
                           ? piece.operands[i]
                           : piece.results[i - piece.operands.size()];
    operand.is_frozen = false;
    operand.type.strides.clear();
    operand.type.dims.clear();
    if (!state.lanes[i].is_single) operand.type.dims.push_back(n);
  }
  auto prepared = PrepareWide(piece);
  if (!prepared.has_value() || !IsPlain(*prepared)) return std::nullopt;
  return prepared;
}

Verdict PreparePieces(const KernelRequest& request) {
  const TensorType& out = request.results[0].type;
  if (!IsHalf(request)) return No{"nothing has 16 bits"};
  if (request.results.size() != 1 || !out.is_dense() ||
      request.operands.size() + 1 > kMostLanes) {
    return No{"the result isn't one, without gaps"};
  }
  auto state = std::make_shared<PiecesState>();
  state->count = out.num_elements();
  if (state->count == 0) return No{"nothing to compute"};
  uint32_t inplace = 0;
  for (const Operand& operand : request.operands) {
    const TensorType& type = operand.type;
    const bool is_single = type.num_elements() == 1 && state->count > 1;
    const bool lies_alike = type.dims == out.dims &&
                            type.EffectiveStrides() == out.EffectiveStrides();
    if (!is_single && (!lies_alike || type.is_scalar)) {
      return No{"an operand lies otherwise than the result"};
    }
    const auto half = HalfOf(type.dtype);
    const int64_t bytes = ElementBytes(type.dtype);
    if (!is_single && bytes == ElementBytes(out.dtype)) {
      inplace |= 1u << state->lanes.size();
    }
    state->lanes.push_back({.widen = half.has_value()
                                         ? Simd().widen[static_cast<int>(*half)]
                                         : nullptr,
                            .bytes = bytes,
                            .is_single = is_single});
  }
  const auto half = HalfOf(out.dtype);
  state->lanes.push_back({.narrow = half.has_value()
                                        ? Simd().narrow[static_cast<int>(*half)]
                                        : nullptr,
                          .bytes = ElementBytes(out.dtype)});
  auto piece = PreparePiece(request, *state, kPiece);
  auto rest = PreparePiece(request, *state, (state->count - 1) % kPiece + 1);
  if (!piece.has_value() || !rest.has_value()) {
    return No{"no plain float32 kernel takes a piece"};
  }
  state->piece = *std::move(piece);
  state->rest = *std::move(rest);
  state->num_threads = UsefulThreads(request.num_threads, state->count);
  Prepared prepared;
  prepared.launch = LaunchPieces;
  prepared.never_fails = true;
  prepared.inplace_operands = inplace;
  prepared.state = std::move(state);
  return prepared;
}

// Whole operands.

struct WholeState {
  Prepared inner;  // The wide kernel.
  absl::InlinedVector<Lane, 6> lanes;
  int64_t wide_scratch = -1;  // Offset of its scratch memory, if it has any.
  int num_threads = 1;
};

void Convert(ConvertFn convert, const void* from, int64_t from_bytes, void* to,
             int64_t to_bytes, int64_t count, int num_threads) {
  Parallel(num_threads, count, [&](int64_t begin, int64_t end) {
    convert(static_cast<const char*>(from) + begin * from_bytes,
            static_cast<char*>(to) + begin * to_bytes, end - begin);
  });
}

bool RunWhole(const WholeState& s, const void* wide_state, void* const* args,
              LaunchContext& context) {
  const size_t num_lanes = s.lanes.size();
  char* const scratch = static_cast<char*>(args[num_lanes]);
  absl::InlinedVector<void*, 8> wide_args(args, args + num_lanes);
  for (size_t i = 0; i < num_lanes; ++i) {
    const Lane& lane = s.lanes[i];
    if (args[i] == nullptr || (lane.widen == nullptr && lane.narrow == nullptr))
      continue;
    wide_args[i] = scratch + lane.offset;
    if (lane.widen == nullptr) continue;
    Convert(lane.widen, args[i], lane.bytes, wide_args[i], kFloatBytes,
            lane.count, s.num_threads);
  }
  if (s.wide_scratch >= 0) wide_args.push_back(scratch + s.wide_scratch);
  if (!s.inner.launch(wide_state, wide_args.data(), context)) return false;
  for (size_t i = 0; i < num_lanes; ++i) {
    const Lane& lane = s.lanes[i];
    if (args[i] == nullptr || lane.narrow == nullptr) continue;
    Convert(lane.narrow, wide_args[i], kFloatBytes, args[i], lane.bytes,
            lane.count, s.num_threads);
  }
  return true;
}

// Of an operand that is widened, then packed unless `own` is null.
std::string LayoutOf(DType dtype, const PackRequest* own) {
  if (own != nullptr && own->layout.empty()) return "";
  return absl::StrCat(DTypeName(dtype), " widened, ",
                      own == nullptr ? "as it lies" : own->layout);
}

// Frozen operands are widened once, and packed then if the wide kernel packs.
void AddPacks(const KernelRequest& request, WholeState& s, Prepared& prepared) {
  for (size_t i = 0; i < request.operands.size(); ++i) {
    Lane& lane = s.lanes[i];
    if (!request.operands[i].is_frozen || lane.widen == nullptr) continue;
    const auto own = std::find_if(s.inner.packs.begin(), s.inner.packs.end(),
                                  [i](const PackRequest& pack) {
                                    return pack.operand == static_cast<int>(i);
                                  });
    const auto pack = own == s.inner.packs.end() ? nullptr : own->pack;
    const auto convert = [widen = lane.widen, count = lane.count, pack](
                             const void* from, void* to) -> absl::Status {
      if (pack == nullptr) {
        widen(from, to, count);
        return absl::OkStatus();
      }
      std::vector<float> wide(count);
      widen(from, wide.data(), count);
      return pack(wide.data(), to);
    };
    prepared.packs.push_back(
        {.operand = static_cast<int>(i),
         .bytes = pack == nullptr ? lane.count * kFloatBytes : own->bytes,
         .layout = LayoutOf(request.operands[i].type.dtype,
                            pack == nullptr ? nullptr : &*own),
         .pack = convert});
    lane.widen = nullptr;
  }
}

int64_t Reserve(int64_t bytes, int64_t& total) {
  const int64_t offset = total;
  total += AlignUp(bytes);
  return offset;
}

std::optional<std::string> AddLanes(const KernelRequest& request,
                                    WholeState& s) {
  for (const Operand& operand : request.operands) {
    const auto half = HalfOf(operand.type.dtype);
    Lane lane{
        .count = operand.type.extent_bytes() / ElementBytes(operand.type.dtype),
        .bytes = ElementBytes(operand.type.dtype)};
    if (half.has_value()) {
      // What lies between the elements is widened with them.
      constexpr int64_t kWidest = 16;
      if (lane.count > kWidest * operand.type.num_elements()) {
        return "an operand has wide gaps";
      }
      lane.widen = Simd().widen[static_cast<int>(*half)];
    }
    s.lanes.push_back(lane);
  }
  for (const Operand& result : request.results) {
    const auto half = HalfOf(result.type.dtype);
    Lane lane{.count = result.type.num_elements(),
              .bytes = ElementBytes(result.type.dtype)};
    if (half.has_value()) {
      if (!result.type.is_dense()) return "a result has gaps";
      lane.narrow = Simd().narrow[static_cast<int>(*half)];
    }
    s.lanes.push_back(lane);
  }
  return std::nullopt;
}

}  // namespace

Verdict PrepareWhole(const KernelRequest& request) {
  auto state = std::make_shared<WholeState>();
  WholeState& s = *state;
  if (!IsHalf(request)) return No{"nothing has 16 bits"};
  if (auto no = AddLanes(request, s)) return No{*no};
  auto wide = PrepareWide(Widen(request));
  if (!wide.has_value()) return No{"no float32 kernel takes it"};
  s.inner = *std::move(wide);
  Prepared prepared;
  AddPacks(request, s, prepared);
  for (const PackRequest& pack : s.inner.packs) {
    const bool is_taken = std::any_of(
        prepared.packs.begin(), prepared.packs.end(),
        [&](const PackRequest& own) { return own.operand == pack.operand; });
    if (!is_taken) prepared.packs.push_back(pack);
  }
  int64_t scratch = 0, most = 1;
  for (Lane& lane : s.lanes) {
    if (lane.widen == nullptr && lane.narrow == nullptr) continue;
    lane.offset = Reserve(lane.count * kFloatBytes, scratch);
    most = std::max(most, lane.count);
  }
  if (s.inner.scratch_bytes > 0) {
    s.wide_scratch = Reserve(s.inner.scratch_bytes, scratch);
  }
  s.num_threads = UsefulThreads(request.num_threads, most);
  prepared.scratch_bytes = std::max(scratch, kBufferAlignment);
  prepared.never_fails = s.inner.never_fails;
  LaunchAround<RunWhole, WholeState>(std::move(state), prepared);
  return prepared;
}

namespace {

// To float32 alone, each element where it was.

struct CopyState {
  ConvertFn widen = nullptr;
  int64_t count = 0;
  int num_threads = 1;
};

bool LaunchCopy(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const CopyState*>(state);
  Convert(s.widen, args[0], sizeof(uint16_t), args[1], kFloatBytes, s.count,
          s.num_threads);
  return true;
}

Verdict PrepareCopy(const KernelRequest& request) {
  const TensorType& from = request.operands[0].type;
  const TensorType& to = request.results[0].type;
  const auto half = HalfOf(from.dtype);
  if (!half.has_value() || to.dtype != DType::kF32) return No{"not to f32"};
  if (from.dims != to.dims || !from.is_dense() || from.is_scalar ||
      from.EffectiveStrides() != to.EffectiveStrides()) {
    return No{"elements move"};
  }
  const int64_t count = to.num_elements();
  Prepared prepared;
  prepared.launch = LaunchCopy;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const CopyState>(
      CopyState{.widen = Simd().widen[static_cast<int>(*half)],
                .count = count,
                .num_threads = UsefulThreads(request.num_threads, count)});
  return prepared;
}

// The ops.

// A comparison with a number is one with the number rounded to 16 bits.
bool HasNumbers(const KernelRequest& request) {
  for (const Operand& operand : request.operands) {
    if (!HalfOf(operand.type.dtype).has_value()) return true;
  }
  return std::any_of(request.arguments->begin(), request.arguments->end(),
                     [](const Argument& argument) {
                       return std::holds_alternative<double>(argument) ||
                              std::holds_alternative<int64_t>(argument);
                     });
}

Verdict PrepareComparison(const KernelRequest& request) {
  if (HasNumbers(request)) return No{"a number would have to be rounded"};
  return PreparePieces(request);
}

// Of each channel alone: others are oneDNN's, in bfloat16.
Verdict PrepareDepthwise(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  const TensorType& weight = request.operands[1].type;
  constexpr int kGroups = 8;
  if (x.rank() != 4 || request.Int(kGroups) != x.dims[1] ||
      weight.dims[0] != x.dims[1] || x.dims[1] == 1) {
    return No{"not of each channel alone"};
  }
  return PrepareWhole(request);
}

Verdict PrepareAttention(const KernelRequest& request) {
  if (auto no = AtenWinsAttention(request)) return No{*no};
  return PrepareWhole(request);
}

void Add(KernelRegistry& registry, absl::Span<const DType> dtypes,
         absl::Span<const absl::string_view> ops,
         Verdict (*prepare)(const KernelRequest&)) {
  for (absl::string_view op : ops) {
    registry.Add(op, dtypes, KernelRank::kFast, {"cpu.widened", prepare});
  }
}

}  // namespace

void RegisterWidened(KernelRegistry& registry) {
  constexpr DType kBoth[] = {DType::kBF16, DType::kF16};
  constexpr DType kBFloat[] = {DType::kBF16};
  constexpr DType kHalf[] = {DType::kF16};
  Add(registry, kBoth,
      {"aten.exp", "aten.erf", "aten.tanh", "aten.sigmoid", "aten.silu",
       "aten.logical_not", "aten.masked_fill.Scalar"},
      PreparePieces);
  // Without AVX-512 eager's zeros have signs, but float32's don't (GeluErf()).
  if (SimdV4() != nullptr) {
    Add(registry, kHalf, {"aten.gelu"}, PreparePieces);
  }
  Add(registry, kBoth, {"aten._to_copy"}, PrepareCopy);
  // Its first operand is the condition.
  Add(registry, {DType::kBool}, {"aten.where.self"}, PreparePieces);
  Add(registry, kBoth,
      {"aten.eq.Tensor", "aten.ne.Tensor", "aten.lt.Tensor", "aten.le.Tensor",
       "aten.gt.Tensor", "aten.ge.Tensor"},
      PrepareComparison);
  const absl::string_view rows[] = {
      "aten._softmax", "aten._log_softmax", "aten.native_layer_norm",
      "aten.max.dim",  "aten.min.dim",      "aten.argmax",
      "aten.argmin"};
  Add(registry, kBoth, rows, PrepareWidenedRows);
  Add(registry, kBoth, rows, PrepareWhole);
  Add(registry, kBoth,
      {"aten.max_pool2d_with_indices", "aten.avg_pool2d",
       "aten._adaptive_avg_pool2d"},
      PrepareWhole);
  const absl::string_view attention =
      "aten._scaled_dot_product_flash_attention_for_cpu";
  Add(registry, kBoth, {attention}, PrepareAttention);
  registry.Add(attention, kBoth, KernelRank::kPlain,
               {"cpu.widened", PrepareWhole});
  const bool has_bfloat_products = SimdV4() != nullptr;
  const absl::string_view convolutions[] = {"aten.convolution",
                                            "aten.convolution_backward"};
  Add(registry, kHalf, convolutions, PrepareWhole);
  if (has_bfloat_products) {
    Add(registry, kBFloat, {"aten.convolution"}, PrepareDepthwise);
  } else {
    Add(registry, kBFloat, convolutions, PrepareWhole);
  }
}

}  // namespace mica::cpu
