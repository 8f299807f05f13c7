// Elements that indices pick, and their gradient.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/source.h"
#include "kernels/reference/indexing.h"

namespace mica::cuda {
namespace {

// A result whose elements are those of `from` where `picks` say.
Verdict PreparePicks(const Target& target, const KernelRequest& request,
                     const Lane& from, Dims strides, std::vector<Pick> picks) {
  if (!request.results[0].is_used) return No{"only its errors are wanted"};
  const Lane out = ResultLane(request);
  for (const Pick& pick : picks) {
    if (pick.dtype == DType::kBool) return No{"a mask picks"};
  }
  Prepared prepared =
      PrepareElements(target, request,
                      {.compute = out.dtype,
                       .dims = out.dims,
                       .inputs = {{.at = {.arg = from.arg},
                                   .dtype = from.dtype,
                                   .strides = std::move(strides),
                                   .picks = std::move(picks)}},
                       .outputs = {ArrayOf(out, out.dims)},
                       .results = {"x0"}});
  prepared.inplace_operands = 0;  // Elements come from other places.
  return prepared;
}

Verdict PrepareEmbedding(const Target& target, const KernelRequest& request) {
  const Lane weight = OperandLane(request, 0);
  const Lane indices = OperandLane(request, 1);
  Dims columns(indices.rank() + 1, 0), places = indices.strides;
  columns.back() = weight.strides[1];
  places.push_back(0);
  return PreparePicks(target, request, weight, columns,
                      {{.at = {.arg = indices.arg},
                        .dtype = indices.dtype,
                        .strides = places,
                        .size = weight.dims[0],
                        .stride = weight.strides[0]}});
}

Verdict PrepareIndexSelect(const Target& target, const KernelRequest& request) {
  const Lane self = OperandLane(request, 0), index = OperandLane(request, 2);
  if (self.rank() == 0) return No{"it has no axis"};
  const int axis = AxisIndex(request.Int(1), self.rank());
  Dims strides = self.strides, places(self.rank(), 0);
  strides[axis] = 0;
  places[axis] = index.rank() > 0 ? index.strides[0] : 0;
  return PreparePicks(target, request, self, strides,
                      {{.at = {.arg = index.arg},
                        .dtype = index.dtype,
                        .strides = places,
                        .size = self.dims[axis],
                        .stride = self.strides[axis]}});
}

Verdict PrepareGather(const Target& target, const KernelRequest& request) {
  const Lane self = OperandLane(request, 0), index = OperandLane(request, 2);
  if (self.rank() == 0 || index.rank() != self.rank()) {
    return No{"it has no axis"};
  }
  const int axis = AxisIndex(request.Int(1), self.rank());
  Dims strides = self.strides;
  strides[axis] = 0;
  return PreparePicks(target, request, self, strides,
                      {{.at = {.arg = index.arg},
                        .dtype = index.dtype,
                        .strides = index.strides,
                        .size = self.dims[axis],
                        .stride = self.strides[axis]}});
}

Verdict PrepareIndex(const Target& target, const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const IndexedWalk walk(request, 1, self);
  std::vector<Pick> picks;
  for (int i = 0; i < walk.num_indices(); ++i) {
    const Lane& index = walk.index(i);
    picks.push_back({.at = {.arg = index.arg},
                     .dtype = index.dtype,
                     .strides = walk.index_strides()[i],
                     .size = walk.size(i),
                     .stride = walk.stride(i),
                     .takes_negative = true});
  }
  return PreparePicks(target, request, self, walk.self_strides(),
                      std::move(picks));
}

// Of each row of the weight the sum of the gradients at its places, in their
// order. The thread of the first place of a row sums for all: no order is left
// to chance.
constexpr const char* kEmbeddingBackward = R"cuda(
) {
  const int place = blockIdx.x;
  const long long row = indices[place];
  if (row == PADDING) return;
  if (row < 0 || row >= ROWS) {
    if (threadIdx.x == 0) { TELL }
    return;
  }
  bool is_first = true;
  for (int p = threadIdx.x; p < place; p += THREADS) {
    is_first = is_first && indices[p] != row;
  }
  if (!__syncthreads_and(is_first)) return;
  for (long long c = threadIdx.x; c < COLUMNS; c += THREADS) {
    number sum = 0;
    for (int p = place; p < PLACES; ++p) {
      if (indices[p] != row) continue;
      sum += (number)get(grad[p * GRAD_STRIDE + c * GRAD_COLUMN]);
    }
    out[row * COLUMNS + c] = put<element>(sum);
  }
}
)cuda";

Verdict PrepareEmbeddingBackward(const Target& target,
                                 const KernelRequest& request) {
  constexpr int64_t kThreads = 256;
  const Lane grad = OperandLane(request, 0), indices = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  if (!request.results[0].is_used) return No{"only its errors are wanted"};
  if (request.Bool(4)) return No{"it scales by frequency"};
  if (!request.operands[1].type.is_row_major() ||
      !request.results[0].type.is_row_major()) {
    return No{"indices or the result have gaps"};
  }
  const AxisLane rows = SplitAxis(grad, grad.rank() - 1);
  const int64_t places = indices.num_elements();
  int64_t grad_stride = 0;
  if (!rows.outer.dims.empty()) {
    grad_stride = rows.outer.strides.back();
    int64_t next = grad_stride;
    for (size_t d = rows.outer.dims.size(); d-- > 0;) {
      if (rows.outer.dims[d] > 1 && rows.outer.strides[d] != next) {
        return No{"rows have no common stride"};
      }
      next *= rows.outer.dims[d];
    }
  }
  std::vector<Call> calls = {ClearCall{
      .at = {.arg = out.arg}, .bytes = request.results[0].type.extent_bytes()}};
  if (places == 0 || out.num_elements() == 0) {
    return PrepareCalls(std::move(calls));
  }
  std::string source = absl::StrCat(
      Prelude(), "typedef ", NumberName(out.dtype), " number;\ntypedef ",
      ElementName(out.dtype), " element;\n#define THREADS ", kThreads,
      "\n#define PADDING ", IntegerLiteral(request.Int(3)), "\n#define ROWS ",
      out.dims[0], "\n#define COLUMNS ", out.dims[1], "LL\n#define PLACES ",
      places, "\n#define GRAD_STRIDE ", grad_stride, "LL\n#define GRAD_COLUMN ",
      rows.stride, "LL\n#define TELL ", kTellIndexError,
      "\nextern \"C\" __global__ void ", kEntry, "(const ",
      ElementName(grad.dtype), "* grad, const ", ElementName(indices.dtype),
      "* indices, element* out, ", kErrorParameters, kEmbeddingBackward);
  calls.push_back(CodeCall{
      .code = Code::Of(target, std::move(source)),
      .params = {{.arg = grad.arg}, {.arg = indices.arg}, {.arg = out.arg}},
      .blocks = {static_cast<uint32_t>(places), 1, 1},
      .threads = {kThreads, 1},
      .tells_errors = true});
  return PrepareCalls(std::move(calls));
}

}  // namespace

void RegisterPicks(const Kernels& kernels) {
  kernels.Add("aten.embedding", kReals, PrepareEmbedding);
  kernels.Add("aten.index_select", kReals, PrepareIndexSelect);
  kernels.Add("aten.gather", kReals, PrepareGather);
  kernels.Add("aten.index.Tensor", kReals, PrepareIndex);
  kernels.Add("aten._unsafe_index.Tensor", kReals, PrepareIndex);
  kernels.Add("aten.embedding_dense_backward", kFloats,
              PrepareEmbeddingBackward);
}

}  // namespace mica::cuda
