// Kernels that write a part of a tensor: a copy of the whole, unless that may
// be written where it is, then one of the part. And one that reads a part whose
// place shows in a run.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/reference/strided.h"
#include "kernels/reference/window.h"

namespace mica::cpu {
namespace {

// Strides, of the window, and the offset are in bytes.
struct State {
  int64_t base_bytes = 0, src_bytes = 0;  // With all gaps.
  int64_t offset = 0;
  Dims dims, from_strides, to_strides;
  int64_t element_bytes = 0;
  std::optional<StridedCopy> copy;
  int num_threads = 1;
  std::optional<MovedWindow> moved;  // If a run decides the offset.
};

// Of two sets of elements that lie alike, `delta` bytes apart: true if an
// element of one may have bytes of one of the other. From dim `d` on; strides
// are positive.
bool MayMeet(const Dims& dims, const Dims& strides, size_t d, int64_t element,
             int64_t delta) {
  if (d == dims.size()) return std::abs(delta) < element;
  int64_t reach = element - 1;
  for (size_t i = d + 1; i < dims.size(); ++i) {
    reach += (dims[i] - 1) * strides[i];
  }
  // Steps between the two in this dim that the further ones can make up for.
  const int64_t most = dims[d] - 1;
  const int64_t least = std::max(-most, (delta - reach) / strides[d] - 1);
  const int64_t last = std::min(most, (delta + reach) / strides[d] + 1);
  constexpr int64_t kMostTries = 8;
  if (last - least > kMostTries) return true;
  for (int64_t steps = least; steps <= last; ++steps) {
    if (MayMeet(dims, strides, d + 1, element, delta - steps * strides[d])) {
      return true;
    }
  }
  return false;
}

// Whether an element of src may be written over before it is read.
bool MayOverwrite(const State& s, const char* src, const char* out,
                  int64_t offset) {
  if (src + s.src_bytes <= out || out + s.base_bytes <= src) return false;
  if (s.from_strides != s.to_strides) return true;
  for (int64_t stride : s.to_strides) {
    if (stride <= 0) return true;
  }
  return MayMeet(s.dims, s.to_strides, 0, s.element_bytes,
                 src - (out + offset));
}

// In bytes; false if it leaves the base.
bool FindOffset(const State& s, void* const* args, int64_t* offset,
                LaunchContext& context) {
  *offset = s.offset;
  if (!s.moved.has_value()) return true;
  if (!s.moved->Locate(args, offset, context)) return false;
  *offset *= s.element_bytes;
  return true;
}

bool LaunchWindowWrite(const void* state, void* const* args,
                       LaunchContext& context) {
  const auto& s = *static_cast<const State*>(state);
  int64_t offset = 0;
  if (!FindOffset(s, args, &offset, context)) return false;
  const auto* base = static_cast<const char*>(args[0]);
  const auto* src = static_cast<const char*>(args[1]);
  auto* out = static_cast<char*>(args[s.moved.has_value() ? 3 : 2]);
  if (base != out && s.base_bytes > 0) {
    std::memcpy(out, base, static_cast<size_t>(s.base_bytes));
  }
  std::vector<char> copy;
  if (base == out && MayOverwrite(s, src, out, offset)) {
    copy.assign(src, src + s.src_bytes);
    src = copy.data();
  }
  s.copy->Run(src, out + offset, s.num_threads);
  return true;
}

bool LaunchWindowRead(const void* state, void* const* args,
                      LaunchContext& context) {
  const auto& s = *static_cast<const State*>(state);
  int64_t offset = 0;
  if (!FindOffset(s, args, &offset, context)) return false;
  s.copy->Run(static_cast<const char*>(args[0]) + offset, args[2],
              s.num_threads);
  return true;
}

// In bytes, and without dims of one element.
void SetWindow(const Window& window, const Dims& from_strides, int64_t bytes,
               State& s) {
  for (size_t i = 0; i < window.dims.size(); ++i) {
    if (window.dims[i] == 1) continue;
    s.dims.push_back(window.dims[i]);
    s.from_strides.push_back(from_strides[i] * bytes);
    s.to_strides.push_back(window.strides[i] * bytes);
  }
}

Verdict PrepareWindowWrite(const KernelRequest& request, const Window& window,
                           std::optional<MovedWindow> moved = std::nullopt) {
  const TensorType& base = request.operands[0].type;
  const TensorType& result = request.results[0].type;
  if (!request.results[0].is_used) return No{"nobody reads it"};
  if (base.EffectiveStrides() != result.EffectiveStrides() ||
      !base.is_dense()) {
    return No{"the base and the result aren't laid out alike, without gaps"};
  }
  if (request.operands[1].type.dtype != base.dtype) return No{"src converts"};
  const int64_t bytes = ElementBytes(base.dtype);
  State state = {.base_bytes = base.num_bytes(),
                 .src_bytes = request.operands[1].type.extent_bytes(),
                 .offset = window.offset * bytes,
                 .element_bytes = bytes};
  const TensorType& src = request.operands[1].type;
  state.copy = StridedCopy::Of(
      src,
      {.dtype = base.dtype, .dims = window.dims, .strides = window.strides});
  if (!state.copy.has_value()) return No{"elements of another size"};
  SetWindow(window, BroadcastStrides(OperandLane(request, 1), window.dims),
            bytes, state);
  state.num_threads = request.num_threads;
  state.moved = std::move(moved);
  Prepared prepared;
  prepared.launch = LaunchWindowWrite;
  prepared.inplace_operands = 1;
  prepared.overlapping_operands = 2;
  prepared.state = std::make_shared<const State>(std::move(state));
  return prepared;
}

Verdict PrepareWriteWindowAt(const KernelRequest& request) {
  MovedWindow moved(request, 4);
  const Window window = moved.window();
  return PrepareWindowWrite(request, window, std::move(moved));
}

Verdict PrepareWindowAt(const KernelRequest& request) {
  const TensorType& result = request.results[0].type;
  if (!request.results[0].is_used) return No{"nobody reads it"};
  State state = {.element_bytes = ElementBytes(result.dtype),
                 .num_threads = request.num_threads,
                 .moved = MovedWindow(request, 3)};
  const Window& window = state.moved->window();
  state.copy = StridedCopy::Of(
      {.dtype = result.dtype, .dims = window.dims, .strides = window.strides},
      result);
  if (!state.copy.has_value()) return No{"elements of another size"};
  Prepared prepared;
  prepared.launch = LaunchWindowRead;
  prepared.state = std::make_shared<const State>(std::move(state));
  return prepared;
}

Window ViewWindow(const KernelRequest& request) {
  return {.dims = Dims(request.Ints(2).begin(), request.Ints(2).end()),
          .strides = Dims(request.Ints(3).begin(), request.Ints(3).end()),
          .offset = request.Int(4)};
}

}  // namespace

void RegisterWindowWrites(KernelRegistry& registry) {
  const auto add = [&](absl::string_view op,
                       Window (*place)(const KernelRequest&)) {
    registry.Add(op, kMovedTypes, KernelRank::kFast,
                 {"cpu.window_write", [place](const KernelRequest& request) {
                    return PrepareWindowWrite(request, place(request));
                  }});
  };
  registry.Add("mica.window_at", kMovedTypes, KernelRank::kFast,
               {"cpu.window_read", PrepareWindowAt});
  registry.Add("mica.write_window_at", kMovedTypes, KernelRank::kFast,
               {"cpu.window_write", PrepareWriteWindowAt});
  add("mica.scatter_view", ViewWindow);
  add("aten.slice_scatter", SliceWindow);
  add("aten.select_scatter", SelectWindow);
  add("aten.diagonal_scatter", DiagonalWindow);
}

}  // namespace mica::cpu
