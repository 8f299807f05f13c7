// Joins along the last axis of tensors with one element there each, as of
// coordinates: all operands in one pass.

#include <cstdint>
#include <memory>

#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/cpu/parallel.h"

namespace mica::cpu {
namespace {

struct InterleaveState {
  int64_t elements = 0;  // Of each operand.
  int num_threads = 1;
};

template <typename T, int kInputs>
bool LaunchInterleave(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const InterleaveState*>(state);
  Parallel(s.num_threads, s.elements, [&](int64_t begin, int64_t end) {
    const T* in[kInputs];
    for (int i = 0; i < kInputs; ++i) in[i] = static_cast<const T*>(args[i]);
    T* out = static_cast<T*>(args[kInputs]) + begin * kInputs;
    for (int64_t o = begin; o < end; ++o, out += kInputs) {
      for (int i = 0; i < kInputs; ++i) out[i] = in[i][o];
    }
  });
  return true;
}

template <typename T>
LaunchFn InterleaveOf(size_t num_inputs) {
  return num_inputs == 2   ? LaunchInterleave<T, 2>
         : num_inputs == 3 ? LaunchInterleave<T, 3>
         : num_inputs == 4 ? LaunchInterleave<T, 4>
                           : nullptr;
}

LaunchFn InterleaveOf(int64_t bytes, size_t num_inputs) {
  switch (bytes) {
    case 1:
      return InterleaveOf<uint8_t>(num_inputs);
    case 2:
      return InterleaveOf<uint16_t>(num_inputs);
    case 4:
      return InterleaveOf<uint32_t>(num_inputs);
    case 8:
      return InterleaveOf<uint64_t>(num_inputs);
    default:
      return nullptr;
  }
}

Verdict PrepareInterleave(const KernelRequest& request) {
  const TensorType& out = request.results[0].type;
  const int rank = out.rank();
  if (request.OperandIndex(1) >= 0 || rank == 0) return No{"no axis"};
  const int64_t axis = request.Has(1) ? request.Int(1) : 0;
  if (axis != rank - 1 && axis != -1) return No{"not along the last axis"};
  const auto num_inputs = static_cast<int64_t>(request.operands.size());
  if (!out.is_row_major() || out.dims.back() != num_inputs) {
    return No{"not one element of each"};
  }
  const int64_t elements = out.num_elements() / num_inputs;
  for (const Operand& operand : request.operands) {
    if (operand.type.dtype != out.dtype) return No{"an operand converts"};
    if (!operand.type.is_row_major() ||
        operand.type.num_elements() != elements) {
      return No{"an operand lies otherwise than the result"};
    }
  }
  const LaunchFn launch =
      InterleaveOf(ElementBytes(out.dtype), request.operands.size());
  if (launch == nullptr) return No{"too many operands"};
  Prepared prepared;
  prepared.launch = launch;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const InterleaveState>(InterleaveState{
      elements, UsefulThreads(request.num_threads, out.num_elements())});
  return prepared;
}

}  // namespace

void RegisterInterleave(KernelRegistry& registry) {
  for (const absl::string_view op : {"aten.cat", "aten.stack"}) {
    registry.Add(op, kMovedTypes, KernelRank::kFast,
                 {"cpu.interleave", PrepareInterleave});
  }
}

}  // namespace mica::cpu
