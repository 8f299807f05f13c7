// Attention and its gradient: in one kernel a pass where that fits, else by
// products, with a kernel for the rows between.
//
// Then all scores are in memory at once, [batch, heads, queries, keys] in f32,
// or f64: more traffic than one fused kernel has, for products at the library's
// speed whatever the device.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/flash_attention.h"
#include "kernels/cuda/matrices.h"
#include "kernels/cuda/reduce_kernel.h"
#include "kernels/cuda/row_kernel.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

// A dense array [batch * heads, rows, columns] in scratch memory.
struct Dense {
  Ref at;
  DType dtype = DType::kF32;
  Dims dims;  // [batch, heads, rows, columns].

  // As a batch of matrices, turned or not; `arg` is set behind.
  Lane AsBatch(bool is_turned) const {
    Lane lane{.dtype = dtype,
              .dims = {dims[0] * dims[1], dims[2], dims[3]},
              .strides = {dims[2] * dims[3], dims[3], 1}};
    if (is_turned) {
      std::swap(lane.dims[1], lane.dims[2]);
      std::swap(lane.strides[1], lane.strides[2]);
    }
    return lane;
  }
};

// Builds the calls of one attention.
class Attention {
 public:
  Attention(const Target& target, const KernelRequest& request, const Lane& q,
            const Lane& k)
      : target_(target),
        request_(request),
        scratch_(request),
        dims_({q.dims[0], q.dims[1], q.dims[2], k.dims[2]}) {}

  Dense Take(DType dtype, int64_t rows, int64_t columns) {
    const Dims dims = {dims_[0], dims_[1], rows, columns};
    return {.at = scratch_.Take(dims_[0] * dims_[1] * rows * columns *
                                ElementBytes(dtype)),
            .dtype = dtype,
            .dims = dims};
  }

  // A dense copy; heads of keys that several queries' heads share are repeated.
  Dense CopyIn(const Lane& lane) {
    Dense dense = Take(lane.dtype, lane.dims[2], lane.dims[3]);
    const int64_t shared = dims_[1] / lane.dims[1];
    const Dims dims = {dims_[0], lane.dims[1], shared, lane.dims[2],
                       lane.dims[3]};
    AddCopy(
        {.at = {.arg = lane.arg},
         .dtype = lane.dtype,
         .strides = {lane.strides[0], lane.strides[1], 0, lane.strides[2],
                     lane.strides[3]}},
        {.at = dense.at, .dtype = lane.dtype, .strides = RowMajorStrides(dims)},
        dims);
    return dense;
  }
  void CopyOut(const Dense& dense, const Lane& lane) {
    AddCopy(
        {.at = dense.at,
         .dtype = dense.dtype,
         .strides = RowMajorStrides(dense.dims)},
        {.at = {.arg = lane.arg}, .dtype = lane.dtype, .strides = lane.strides},
        dense.dims);
  }

  void Multiply(const Dense& a, bool turns_a, const Dense& b, bool turns_b,
                const Dense& out, double alpha) {
    ProductCall product;
    // Dense arrays fit in any case.
    SetMatrices(a.AsBatch(turns_a), b.AsBatch(turns_b), out.AsBatch(false),
                product);
    product.a = product.is_turned ? b.at : a.at;
    product.b = product.is_turned ? a.at : b.at;
    product.out = out.at;
    product.product.alpha = alpha;
    calls_.push_back(std::move(product));
  }

  // Of each row the sum of the products of two arrays' elements.
  Dense DotRows(const Lane& a, const Lane& b, DType dtype) {
    Dense dots = Take(dtype, dims_[2], 1);
    Reduction r{.compute = dtype,
                .kept_dims = {dims_[0], dims_[1], dims_[2]},
                .reduced_dims = {a.dims[3]}};
    for (const Lane* lane : {&a, &b}) {
      r.inputs.push_back({.at = {.arg = lane->arg},
                          .dtype = lane->dtype,
                          .kept_strides = {lane->strides[0], lane->strides[1],
                                           lane->strides[2]},
                          .reduced_strides = {lane->strides[3]}});
    }
    r.elements = {"x0 * x1"};
    r.outputs = {{.at = dots.at,
                  .dtype = dtype,
                  .strides = RowMajorStrides(r.kept_dims),
                  .result = "a.sum"}};
    AddReduceCalls(target_, r, scratch_, calls_);
    return dots;
  }

  // A kernel over all rows of scores: the arrays that all have, and the mask.
  RowKernel MakeRows(DType compute) const {
    return {.compute = compute,
            .rows = {dims_[0], dims_[1], dims_[2]},
            .length = dims_[3],
            .numbers = {{"query", {0, 0, 1}}}};
  }
  static void AddDense(RowKernel& rows, std::string name, const Dense& dense,
                       bool is_output) {
    const Dims strides = RowMajorStrides(dense.dims);
    rows.arrays.push_back({.name = std::move(name),
                           .at = dense.at,
                           .dtype = dense.dtype,
                           .row_strides = {strides[0], strides[1], strides[2]},
                           .stride = 1,
                           .is_output = is_output});
  }
  // One element a row.
  static void AddOfRow(RowKernel& rows, std::string name, const Lane& lane,
                       bool is_output) {
    rows.arrays.push_back({.name = std::move(name),
                           .at = {.arg = lane.arg},
                           .dtype = lane.dtype,
                           .row_strides = lane.strides,
                           .is_output = is_output});
  }
  // The score of key `i`, hidden ones at minus infinity.
  std::string AddScore(RowKernel& rows, int mask, bool is_causal) const {
    std::string score = "score(i)";
    if (request_.Has(mask)) {
      const Lane lane = OperandLane(request_, mask);
      const Dims strides = BroadcastStrides(lane, dims_);
      rows.arrays.push_back(
          {.name = "mask",
           .at = {.arg = lane.arg},
           .dtype = lane.dtype,
           .row_strides = {strides[0], strides[1], strides[2]},
           .stride = strides[3]});
      score = lane.dtype == DType::kBool
                  ? "(mask(i) != 0 ? score(i) : -infinity())"
                  : "(score(i) + mask(i))";
    }
    if (is_causal)
      score = absl::StrCat("(i > query ? -infinity() : ", score, ")");
    return score;
  }
  void AddRows(const RowKernel& rows) {
    calls_.push_back(MakeRowCall(target_, rows));
  }
  void Add(CodeCall call) { calls_.push_back(std::move(call)); }

  Prepared Finish() {
    return PrepareCalls(std::move(calls_), scratch_.bytes());
  }

 private:
  void AddCopy(ElementArray from, ElementArray to, const Dims& dims) {
    calls_.push_back(
        MakeCopyCall(target_, std::move(from), std::move(to), dims));
  }

  const Target& target_;
  const KernelRequest& request_;
  Scratch scratch_;
  const Dims dims_;  // [batch, heads, queries, keys].
  std::vector<Call> calls_;
};

double ScaleOf(const KernelRequest& request, int param, const Lane& q) {
  return request.Has(param) ? request.Number(param)
                            : 1 / std::sqrt(static_cast<double>(q.dims[3]));
}

bool IsEmpty(const Lane& q, const Lane& k, const Lane& v) {
  return q.num_elements() == 0 || k.num_elements() == 0 ||
         v.num_elements() == 0;
}

// From the parameters of query, key and value, which follow each other, of
// whether it is causal, and of the scale.
FlashOperands FlashOperandsOf(const KernelRequest& request, int query,
                              int causal, int scale) {
  const Lane q = OperandLane(request, query);
  return {.q = q,
          .k = OperandLane(request, query + 1),
          .v = OperandLane(request, query + 2),
          .scale = ScaleOf(request, scale, q),
          .is_causal = request.Bool(causal)};
}

// query, key, value, dropout, causal, mask, scale.
Verdict PrepareFlash(const Target& target, const KernelRequest& request) {
  if (!request.results[0].is_used) return No{"its result isn't wanted"};
  const FlashOperands o = FlashOperandsOf(request, 0, 4, 6);
  const Lane out = ResultLane(request, 0), log_sum = ResultLane(request, 1);
  if (IsEmpty(o.q, o.k, o.v)) return No{"there are no elements"};
  if (request.Has(5)) return No{"there is a mask"};
  if (!FitsFlash(target, o) || !FitsFlash(out, o)) {
    return No{"wants half precision, and rows at multiples of 8 elements"};
  }
  return PrepareCalls({MakeFlashForward(target, o, out, log_sum)});
}

Verdict PrepareAttention(const Target& target, const KernelRequest& request) {
  const Lane q = OperandLane(request, 0), k = OperandLane(request, 1),
             v = OperandLane(request, 2);
  if (IsEmpty(q, k, v)) return No{"there are no elements"};
  Attention attention(target, request, q, k);
  const Dense qs = attention.CopyIn(q), ks = attention.CopyIn(k);
  const DType compute = WideFloat(q.dtype);
  const Dense scores = attention.Take(compute, q.dims[2], k.dims[2]);
  attention.Multiply(qs, false, ks, true, scores, ScaleOf(request, 6, q));
  const Dense weights = attention.Take(v.dtype, q.dims[2], k.dims[2]);
  RowKernel rows = attention.MakeRows(compute);
  Attention::AddDense(rows, "score", scores, false);
  Attention::AddDense(rows, "weight", weights, true);
  const std::string score = attention.AddScore(rows, 5, request.Bool(4));
  rows.body = absl::StrCat(
      "  number x[ITEMS], most = -infinity(), sum = 0;\n  FOR_ROW { x[k] = ",
      score,
      "; most = larger(most, x[k]); }\n  most = row_max(most);\n"
      "  const number shift = most == -infinity() ? 0 : most;\n"
      "  FOR_ROW { x[k] = exp(x[k] - shift); sum += x[k]; }\n"
      "  sum = row_sum(sum);\n  const number share = sum == 0 ? 0 : 1 / sum;\n"
      "  FOR_ROW put_weight(i, x[k] * share);\n");
  if (request.results[1].is_used) {
    Attention::AddOfRow(rows, "log_sum", ResultLane(request, 1), true);
    rows.body +=
        "  if (threadIdx.x == 0) put_log_sum(0, sum == 0 ? 0 : shift + "
        "log(sum));\n";
  }
  attention.AddRows(rows);
  if (request.results[0].is_used) {
    const Dense vs = attention.CopyIn(v);
    const Dense made = attention.Take(v.dtype, q.dims[2], v.dims[3]);
    attention.Multiply(weights, false, vs, false, made, 1);
    attention.CopyOut(made, ResultLane(request, 0));
  }
  return attention.Finish();
}

// grad_out, query, key, value, out, logsumexp, dropout, causal, mask, scale.
Verdict PrepareFlashBackward(const Target& target,
                             const KernelRequest& request) {
  const FlashOperands o = FlashOperandsOf(request, 1, 7, 9);
  FlashGradient g{.grad = OperandLane(request, 0),
                  .log_sum = OperandLane(request, 5)};
  if (IsEmpty(o.q, o.k, o.v)) return No{"there are no elements"};
  if (request.Has(8)) return No{"there is a mask"};
  if (o.k.dims[1] != o.q.dims[1]) return No{"heads of keys are shared"};
  bool fits = FitsFlash(target, o) && FitsFlash(g.grad, o) &&
              g.log_sum.dtype == DType::kF32;
  for (int k : {0, 1, 2}) fits &= FitsFlash(ResultLane(request, k), o);
  if (!fits) {
    return No{"wants half precision, and rows at multiples of 8 elements"};
  }
  Attention attention(target, request, o.q, o.k);
  g.dots_at =
      attention.DotRows(g.grad, OperandLane(request, 4), DType::kF32).at;
  if (request.results[0].is_used) {
    attention.Add(MakeFlashBackwardQ(target, o, g, ResultLane(request, 0)));
  }
  if (request.results[1].is_used || request.results[2].is_used) {
    attention.Add(MakeFlashBackwardKV(target, o, g, ResultLane(request, 1),
                                      ResultLane(request, 2)));
  }
  return attention.Finish();
}

Verdict PrepareAttentionBackward(const Target& target,
                                 const KernelRequest& request) {
  const Lane grad = OperandLane(request, 0), q = OperandLane(request, 1),
             k = OperandLane(request, 2), v = OperandLane(request, 3);
  if (IsEmpty(q, k, v)) return No{"there are no elements"};
  if (k.dims[1] != q.dims[1]) return No{"heads of keys are shared"};
  const double scale = ScaleOf(request, 9, q);
  const DType compute = WideFloat(q.dtype);
  Attention attention(target, request, q, k);
  const Dense gs = attention.CopyIn(grad), qs = attention.CopyIn(q),
              ks = attention.CopyIn(k), vs = attention.CopyIn(v);
  const Dense scores = attention.Take(compute, q.dims[2], k.dims[2]);
  const Dense gains = attention.Take(compute, q.dims[2], k.dims[2]);
  attention.Multiply(qs, false, ks, true, scores, scale);
  attention.Multiply(gs, false, vs, true, gains, 1);
  const Dense weights = attention.Take(q.dtype, q.dims[2], k.dims[2]);
  const Dense slopes = attention.Take(q.dtype, q.dims[2], k.dims[2]);
  const Dense dots = attention.DotRows(grad, OperandLane(request, 4), compute);
  RowKernel rows = attention.MakeRows(compute);
  Attention::AddDense(rows, "score", scores, false);
  Attention::AddDense(rows, "gain", gains, false);
  Attention::AddDense(rows, "dot_of", dots, false);
  Attention::AddDense(rows, "weight", weights, true);
  Attention::AddDense(rows, "slope", slopes, true);
  Attention::AddOfRow(rows, "log_sum", OperandLane(request, 5), false);
  const std::string score = attention.AddScore(rows, 8, request.Bool(7));
  rows.body = absl::StrCat(
      "  const number shift = log_sum(0), dot = dot_of(0);\n  FOR_ROW {\n"
      "    const number p = exp(",
      score,
      " - shift);\n    put_weight(i, p);\n"
      "    put_slope(i, p * (gain(i) - dot) * ",
      Literal(compute, scale), ");\n  }\n");
  attention.AddRows(rows);
  const struct {
    int result;
    const Dense &a, &b;
    bool turns;
    int64_t rows, columns;
  } gradients[] = {{0, slopes, ks, false, q.dims[2], q.dims[3]},
                   {1, slopes, qs, true, k.dims[2], k.dims[3]},
                   {2, weights, gs, true, v.dims[2], v.dims[3]}};
  for (const auto& g : gradients) {
    if (!request.results[g.result].is_used) continue;
    const Dense made = attention.Take(q.dtype, g.rows, g.columns);
    attention.Multiply(g.a, g.turns, g.b, false, made, 1);
    attention.CopyOut(made, ResultLane(request, g.result));
  }
  return attention.Finish();
}

}  // namespace

void RegisterAttention(const Kernels& kernels) {
  const std::string op = "aten._scaled_dot_product_flash_attention_for_cpu";
  kernels.Add(op, kFloats, PrepareFlash);
  kernels.Add(op, kFloats, PrepareAttention);
  kernels.Add(absl::StrCat(op, "_backward"), kFloats, PrepareFlashBackward);
  kernels.Add(absl::StrCat(op, "_backward"), kFloats, PrepareAttentionBackward);
}

}  // namespace mica::cuda
