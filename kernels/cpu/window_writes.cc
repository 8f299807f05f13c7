// Kernels that write a part of a tensor: a copy of the whole, unless that may
// be written where it is, then rows of the part.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/families.h"
#include "kernels/reference/strided.h"
#include "kernels/reference/window.h"

namespace mica::cpu {
namespace {

// Strides and the offset are in bytes. Rows are the innermost dim.
struct State {
  int64_t base_bytes = 0, src_bytes = 0;  // With all gaps.
  int64_t offset = 0;
  Dims dims, from_strides, to_strides;  // Of the rows.
  int64_t length = 1, from_step = 0, to_step = 0;
  int64_t element_bytes = 0;
  void (*copy_row)(const State& s, const char* from, char* to) = nullptr;
};

void CopyBytes(const State& s, const char* from, char* to) {
  std::memcpy(to, from, static_cast<size_t>(s.length));
}

template <typename T>
void CopyElements(const State& s, const char* from, char* to) {
  for (int64_t i = 0; i < s.length; ++i) {
    std::memcpy(to + i * s.to_step, from + i * s.from_step, sizeof(T));
  }
}

// Of two sets of pieces that lie alike, `delta` bytes apart: true if a piece of
// one may have bytes of a piece of the other. From dim `d` on; strides are
// positive.
bool MayMeet(const Dims& dims, const Dims& strides, size_t d, int64_t piece,
             int64_t delta) {
  if (d == dims.size()) return std::abs(delta) < piece;
  int64_t reach = piece - 1;
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
    if (MayMeet(dims, strides, d + 1, piece, delta - steps * strides[d])) {
      return true;
    }
  }
  return false;
}

// Whether a row of src may be written over before it is read.
bool MayOverwrite(const State& s, const char* src, const char* out) {
  if (src + s.src_bytes <= out || out + s.base_bytes <= src) return false;
  if (s.from_strides != s.to_strides || s.from_step != s.to_step) return true;
  Dims dims = s.dims, strides = s.to_strides;
  int64_t piece = s.length;
  if (s.copy_row != CopyBytes) {
    dims.push_back(s.length);
    strides.push_back(s.to_step);
    piece = s.element_bytes;
  }
  for (int64_t stride : strides) {
    if (stride <= 0) return true;
  }
  return MayMeet(dims, strides, 0, piece, src - (out + s.offset));
}

bool LaunchWindowWrite(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const State*>(state);
  const auto* base = static_cast<const char*>(args[0]);
  const auto* src = static_cast<const char*>(args[1]);
  auto* out = static_cast<char*>(args[2]);
  if (base != out && s.base_bytes > 0) {
    std::memcpy(out, base, static_cast<size_t>(s.base_bytes));
  }
  std::vector<char> copy;
  if (base == out && MayOverwrite(s, src, out)) {
    copy.assign(src, src + s.src_bytes);
    src = copy.data();
  }
  for (Odometer at(s.dims, {s.from_strides, s.to_strides}); !at.done();
       at.Next()) {
    s.copy_row(s, src + at.offset(0), out + s.offset + at.offset(1));
  }
  return true;
}

// Of the dims of the window those that aren't of one element, neighbours
// joined where they are one in both memories.
void Join(const Window& window, const Dims& from_strides, int64_t bytes,
          State& s) {
  for (size_t i = 0; i < window.dims.size(); ++i) {
    const int64_t dim = window.dims[i];
    if (dim == 1) continue;
    const int64_t from = from_strides[i] * bytes;
    const int64_t to = window.strides[i] * bytes;
    if (!s.dims.empty() && s.from_strides.back() == from * dim &&
        s.to_strides.back() == to * dim) {
      s.dims.back() *= dim;
      s.from_strides.back() = from;
      s.to_strides.back() = to;
      continue;
    }
    s.dims.push_back(dim);
    s.from_strides.push_back(from);
    s.to_strides.push_back(to);
  }
}

// The innermost dim becomes the rows' own.
void TakeRows(int64_t bytes, State& s) {
  s.copy_row = bytes == 1   ? CopyElements<uint8_t>
               : bytes == 2 ? CopyElements<uint16_t>
               : bytes == 4 ? CopyElements<uint32_t>
                            : CopyElements<uint64_t>;
  if (!s.dims.empty()) {
    s.length = s.dims.back();
    s.from_step = s.from_strides.back();
    s.to_step = s.to_strides.back();
    s.dims.pop_back();
    s.from_strides.pop_back();
    s.to_strides.pop_back();
  }
  if (s.length == 1 || (s.from_step == bytes && s.to_step == bytes)) {
    s.length *= bytes;
    s.copy_row = CopyBytes;
  }
}

Verdict PrepareWindowWrite(const KernelRequest& request, const Window& window) {
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
  const Lane src = OperandLane(request, 1);
  Join(window, BroadcastStrides(src, window.dims), bytes, state);
  TakeRows(bytes, state);
  Prepared prepared;
  prepared.launch = LaunchWindowWrite;
  prepared.inplace_operands = 1;
  prepared.overlapping_operands = 2;
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
  constexpr DType kDTypes[] = {
      DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
      DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  const auto add = [&](absl::string_view op,
                       Window (*place)(const KernelRequest&)) {
    registry.Add(op, kDTypes, KernelRank::kFast,
                 {"cpu.window_write", [place](const KernelRequest& request) {
                    return PrepareWindowWrite(request, place(request));
                  }});
  };
  add("mica.scatter_view", ViewWindow);
  add("aten.slice_scatter", SliceWindow);
  add("aten.select_scatter", SelectWindow);
  add("aten.diagonal_scatter", DiagonalWindow);
}

}  // namespace mica::cpu
