// Elements moved as they are: joined, repeated, reordered, padded.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/source.h"
#include "kernels/reference/window.h"

namespace mica::cuda {
namespace {

bool HasElements(const Dims& dims) {
  return std::find(dims.begin(), dims.end(), 0) == dims.end();
}

// One pass from an array to another, elements converted to the target's dtype.
void AddCopy(const Target& target, ElementArray from, ElementArray to,
             const Dims& dims, std::vector<Call>& calls) {
  if (!HasElements(dims)) return;
  calls.push_back(MakeCopyCall(target, std::move(from), std::move(to), dims));
}

ElementArray Shifted(const Lane& lane, Dims strides, int64_t elements) {
  return {
      .at = {.arg = lane.arg, .offset = elements * ElementBytes(lane.dtype)},
      .dtype = lane.dtype,
      .strides = std::move(strides)};
}

Verdict PrepareCat(const Target& target, const KernelRequest& request) {
  std::vector<Call> calls;
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), out.rank());
  int64_t at = 0;
  for (int i = 0; i < request.NumValues(0); ++i) {
    const Lane from = OperandLane(request, 0, i);
    // torch takes an empty list beside tensors of any rank.
    if (from.rank() != out.rank()) continue;
    AddCopy(target, ArrayOf(from, from.dims),
            Shifted(out, out.strides, at * out.strides[axis]), from.dims,
            calls);
    at += from.dims[axis];
  }
  return PrepareCalls(std::move(calls));
}

Verdict PrepareStack(const Target& target, const KernelRequest& request) {
  std::vector<Call> calls;
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), out.rank());
  Dims strides = out.strides;
  strides.erase(strides.begin() + axis);
  for (int i = 0; i < request.NumValues(0); ++i) {
    const Lane from = OperandLane(request, 0, i);
    AddCopy(target, ArrayOf(from, from.dims),
            Shifted(out, strides, i * out.strides[axis]), from.dims, calls);
  }
  return PrepareCalls(std::move(calls));
}

// Each axis of the result is one of repeats and one of the operand's.
Verdict PrepareRepeat(const Target& target, const KernelRequest& request) {
  std::vector<Call> calls;
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane in = OperandLane(request, 0), out = ResultLane(request);
  const int added = out.rank() - in.rank();
  Dims dims, from, to;
  for (int d = 0; d < out.rank(); ++d) {
    const int64_t size = d < added ? 1 : in.dims[d - added];
    if (size == 0) return PrepareCalls({});
    dims.push_back(out.dims[d] / size);
    from.push_back(0);
    to.push_back(out.strides[d] * size);
    dims.push_back(size);
    from.push_back(d < added ? 0 : in.strides[d - added]);
    to.push_back(out.strides[d]);
  }
  AddCopy(target, Shifted(in, from, 0), Shifted(out, to, 0), dims, calls);
  return PrepareCalls(std::move(calls));
}

Verdict PrepareFlip(const Target& target, const KernelRequest& request) {
  std::vector<Call> calls;
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane in = OperandLane(request, 0), out = ResultLane(request);
  Dims strides = in.strides;
  int64_t last = 0;
  for (int64_t given : request.Ints(1)) {
    if (in.rank() == 0) break;
    const int axis = AxisIndex(given, in.rank());
    strides[axis] = -in.strides[axis];
    last += (in.dims[axis] - 1) * in.strides[axis];
  }
  AddCopy(target, Shifted(in, strides, last), Shifted(out, out.strides, 0),
          in.dims, calls);
  return PrepareCalls(std::move(calls));
}

// Keeps the elements for which `condition`, of `row` and `column`, holds.
Verdict PrepareTriangle(const Target& target, const KernelRequest& request,
                        const char* condition) {
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane out = ResultLane(request);
  Dims rows(out.rank(), 0), columns(out.rank(), 0);
  rows[out.rank() - 2] = columns[out.rank() - 1] = 1;
  return PrepareElements(
      target, request,
      {.compute = out.dtype,
       .dims = out.dims,
       .inputs = {ArrayOf(OperandLane(request, 0), out.dims)},
       .outputs = {ArrayOf(out, out.dims)},
       .numbers = {{"row", rows}, {"column", columns}},
       .body = absl::StrCat("    const long long diagonal = ",
                            IntegerLiteral(request.Int(1)), ";\n"),
       .results = {absl::StrCat(condition, " ? x0 : (number)0")}});
}

// A result filled with a number, then written through a window of it.
Verdict FillAndWrite(const Target& target, const KernelRequest& request,
                     double fill, const Window& window) {
  if (!request.results[0].is_used) return PrepareCalls({});
  std::vector<Call> calls;
  const Lane in = OperandLane(request, 0), out = ResultLane(request);
  if (HasElements(out.dims)) {
    calls.push_back(
        MakeElementCall(target, {.compute = out.dtype,
                                 .dims = out.dims,
                                 .outputs = {ArrayOf(out, out.dims)},
                                 .results = {Literal(out.dtype, fill)}}));
  }
  AddCopy(target, ArrayOf(in, window.dims),
          Shifted(out, window.strides, window.offset), window.dims, calls);
  return PrepareCalls(std::move(calls));
}

Verdict PreparePad(const Target& target, const KernelRequest& request) {
  if (request.OperandIndex(2) >= 0) return No{"the number varies"};
  Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  const absl::Span<const int64_t> pad = request.Ints(1);
  Window window{.dims = in.dims, .strides = out.strides};
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int axis = out.rank() - 1 - static_cast<int>(i);
    if (pad[2 * i] < 0 || pad[2 * i + 1] < 0) return No{"it cuts"};
    window.offset += pad[2 * i] * out.strides[axis];
  }
  return FillAndWrite(target, request, request.Number(2), window);
}

}  // namespace

void RegisterMovements(const Kernels& kernels) {
  kernels.Add("aten.cat", kReals, PrepareCat);
  kernels.Add("aten.stack", kReals, PrepareStack);
  kernels.Add("aten.repeat", kReals, PrepareRepeat);
  kernels.Add("aten.flip", kReals, PrepareFlip);
  kernels.Add("aten.constant_pad_nd", kReals, PreparePad);
  for (const auto& [op, condition] :
       {std::pair("aten.tril", "column - row <= diagonal"),
        std::pair("aten.triu", "column - row >= diagonal")}) {
    kernels.Add(op, kReals,
                PrepareFn([target = kernels.target, condition = condition](
                              const KernelRequest& request) {
                  return PrepareTriangle(target, request, condition);
                }));
  }
  const struct {
    const char* op;
    Window (*window)(const KernelRequest&);
  } views[] = {{"aten.slice_backward", SliceWindow},
               {"aten.select_backward", SelectWindow},
               {"aten.diagonal_backward", DiagonalWindow}};
  for (const auto& view : views) {
    kernels.Add(view.op, kReals,
                PrepareFn([target = kernels.target,
                           window = view.window](const KernelRequest& request) {
                  return FillAndWrite(target, request, 0, window(request));
                }));
  }
}

}  // namespace mica::cuda
