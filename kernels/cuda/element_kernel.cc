#include "kernels/cuda/element_kernel.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/element_source.h"

namespace mica::cuda {
namespace {

// Whether the elements of the two lie at the same places.
bool LiesAlike(const TensorType& a, const TensorType& b) {
  return a.dims == b.dims && ElementBytes(a.dtype) == ElementBytes(b.dtype) &&
         a.EffectiveStrides() == b.EffectiveStrides();
}

}  // namespace

CodeCall MakeElementCall(const Target& target, const ElementLoop& loop) {
  ElementSource source = MakeElementSource(loop);
  CodeCall call{.code = Code::Of(target, std::move(source.text))};
  for (const ElementArray& input : loop.inputs) call.params.push_back(input.at);
  ForEachPick(loop, [&](const Pick& pick) {
    call.params.push_back(pick.at);
    call.tells_errors = true;
  });
  for (const ElementArray& out : loop.outputs) call.params.push_back(out.at);
  call.blocks[0] = static_cast<uint32_t>(source.num_blocks);
  call.threads[0] = ElementSource::kThreads;
  return call;
}

CodeCall MakeCopyCall(const Target& target, ElementArray from, ElementArray to,
                      const Dims& dims) {
  return MakeElementCall(target, {.compute = to.dtype,
                                  .dims = dims,
                                  .inputs = {std::move(from)},
                                  .outputs = {std::move(to)},
                                  .results = {"x0"}});
}

ElementArray ArrayOf(const Lane& lane, const Dims& dims) {
  return {.at = {.arg = lane.arg},
          .dtype = lane.dtype,
          .strides = BroadcastStrides(lane, dims)};
}

Prepared PrepareElements(const Target& target, const KernelRequest& request,
                         const ElementLoop& loop) {
  std::vector<Call> calls;
  const bool is_empty =
      std::find(loop.dims.begin(), loop.dims.end(), 0) != loop.dims.end();
  if (!is_empty && !loop.outputs.empty()) {
    calls.push_back(MakeElementCall(target, loop));
  }
  Prepared prepared = PrepareCalls(std::move(calls));
  for (size_t i = 0; i < request.operands.size() && i < 32; ++i) {
    if (LiesAlike(request.operands[i].type, request.results[0].type)) {
      prepared.inplace_operands |= uint32_t{1} << i;
    }
  }
  return prepared;
}

}  // namespace mica::cuda
