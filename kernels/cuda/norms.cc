// Layer normalisation and its gradient.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/reduce_kernel.h"
#include "kernels/cuda/row_kernel.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

Dims First(const Dims& list, int count) {
  return Dims(list.begin(), list.begin() + count);
}
Dims Last(const Dims& list, int count) {
  return Dims(list.end() - count, list.end());
}

// The one stride of elements in the last `num_inner` axes, if they have one.
std::optional<int64_t> InnerStride(const Lane& lane, int num_inner) {
  std::optional<int64_t> stride;
  int64_t next = 0;
  for (int d = lane.rank(); d-- > lane.rank() - num_inner;) {
    if (lane.dims[d] == 1) continue;
    if (stride.has_value() && lane.strides[d] != next) return std::nullopt;
    if (!stride.has_value()) stride = lane.strides[d];
    next = lane.strides[d] * lane.dims[d];
  }
  return stride.value_or(0);
}

// Collects a RowKernel's arrays, or why one doesn't fit.
class Rows {
 public:
  Rows(const Lane& x, int num_inner) : num_inner_(num_inner) {
    kernel_.compute = WideFloat(x.dtype);
    kernel_.rows = First(x.dims, x.rank() - num_inner);
    kernel_.length = 1;
    for (Dim dim : Last(x.dims, num_inner)) kernel_.length *= dim;
  }
  // An array of the operand's own dims.
  void Add(std::string name, const Lane& lane, bool is_output) {
    const auto stride = InnerStride(lane, num_inner_);
    fits_ &= stride.has_value();
    kernel_.arrays.push_back(
        {.name = std::move(name),
         .at = {.arg = lane.arg},
         .dtype = lane.dtype,
         .row_strides = First(lane.strides, lane.rank() - num_inner_),
         .stride = stride.value_or(0),
         .is_output = is_output});
  }
  // One of the inner dims alone: a weight.
  void AddInner(std::string name, const Lane& lane) {
    const auto stride = InnerStride(lane, num_inner_);
    fits_ &= stride.has_value();
    kernel_.arrays.push_back({.name = std::move(name),
                              .at = {.arg = lane.arg},
                              .dtype = lane.dtype,
                              .row_strides = Dims(kernel_.rows.size(), 0),
                              .stride = stride.value_or(0)});
  }
  bool is_empty() const {
    for (Dim dim : kernel_.rows) {
      if (dim == 0) return true;
    }
    return kernel_.length == 0;
  }
  bool fits() const { return fits_; }
  RowKernel& kernel() { return kernel_; }

 private:
  const int num_inner_;
  bool fits_ = true;
  RowKernel kernel_;
};

constexpr const char* kMisfit = "its rows' elements have no common stride";

std::string StatsCode(double eps, DType compute) {
  return absl::StrCat(
      "  const number mean = row_sum(sum) / length;\n  number squares = 0;\n"
      "  FOR_ROW squares += (x[k] - mean) * (x[k] - mean);\n"
      "  const number rstd = 1 / sqrt(row_sum(squares) / length + ",
      Literal(compute, eps), ");\n");
}

// Of an element, from weight and bias where they are given.
std::string AffineCode(bool has_weight, bool has_bias) {
  return absl::StrCat("  FOR_ROW put_out(i, (x[k] - mean) * rstd",
                      has_weight ? " * weight(i)" : "",
                      has_bias ? " + bias(i)" : " + 0", ");\n");
}

void AddAffine(const KernelRequest& request, int weight, Rows& rows) {
  if (request.Has(weight)) {
    rows.AddInner("weight", OperandLane(request, weight));
  }
  if (request.Has(weight + 1)) {
    rows.AddInner("bias", OperandLane(request, weight + 1));
  }
}

Verdict PrepareLayerNorm(const Target& target, const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  Rows rows(in, static_cast<int>(request.Ints(1).size()));
  rows.Add("in", in, false);
  AddAffine(request, 2, rows);
  std::string body =
      "  number x[ITEMS], sum = 0;\n"
      "  FOR_ROW { x[k] = in(i); sum += x[k]; }\n";
  body += StatsCode(request.Number(4), rows.kernel().compute);
  if (request.results[0].is_used) {
    rows.Add("out", ResultLane(request, 0), true);
    body += AffineCode(request.Has(2), request.Has(3));
  }
  for (int k : {1, 2}) {
    if (!request.results[k].is_used) continue;
    const std::string name = k == 1 ? "mean" : "rstd";
    rows.Add(absl::StrCat("all_", name), ResultLane(request, k), true);
    absl::StrAppend(&body, "  if (threadIdx.x == 0) put_all_", name, "(0, ",
                    name, ");\n");
  }
  if (!rows.fits()) return No{kMisfit};
  if (rows.is_empty()) return PrepareCalls({});
  rows.kernel().body = std::move(body);
  return PrepareCalls({MakeRowCall(target, rows.kernel())});
}

Verdict PrepareAddLayerNorm(const Target& target,
                            const KernelRequest& request) {
  const Lane a = OperandLane(request, 0);
  Rows rows(a, static_cast<int>(request.Ints(2).size()));
  rows.Add("a", a, false);
  rows.Add("b", OperandLane(request, 1), false);
  AddAffine(request, 3, rows);
  std::string body =
      "  number x[ITEMS], sum = 0;\n"
      "  FOR_ROW { x[k] = a(i) + b(i); sum += x[k]; }\n";
  if (request.results[0].is_used) {
    rows.Add("sum", ResultLane(request, 0), true);
    body += "  FOR_ROW put_sum(i, x[k]);\n";
  }
  if (request.results[1].is_used) {
    rows.Add("out", ResultLane(request, 1), true);
    body += StatsCode(request.Number(5), rows.kernel().compute);
    body += AffineCode(request.Has(3), request.Has(4));
  }
  if (!rows.fits()) return No{kMisfit};
  if (rows.is_empty()) return PrepareCalls({});
  rows.kernel().body = std::move(body);
  return PrepareCalls({MakeRowCall(target, rows.kernel())});
}

// grad_out, input, shape, mean, rstd, weight, bias, mask. One kernel goes over
// the rows: it writes the input's gradient, and sums what the weight and the
// bias get; those sums of blocks are then added.
class LayerNormBackward {
 public:
  LayerNormBackward(const Target& target, const KernelRequest& request)
      : target_(target),
        request_(request),
        scratch_(request),
        rows_(OperandLane(request, 1),
              static_cast<int>(request.Ints(2).size())) {
    const auto& mask = std::get<std::vector<bool>>((*request.arguments)[7]);
    for (int k : {0, 1, 2}) {
      is_wanted_[k] = mask[k] && request.results[k].is_used;
    }
  }

  Verdict Prepare() {
    rows_.Add("grad", OperandLane(request_, 0), false);
    rows_.Add("in", OperandLane(request_, 1), false);
    rows_.Add("mean_of", OperandLane(request_, 3), false);
    rows_.Add("rstd_of", OperandLane(request_, 4), false);
    if (request_.Has(5)) rows_.AddInner("weight", OperandLane(request_, 5));
    if (is_wanted_[0]) rows_.Add("out", ResultLane(request_, 0), true);
    if (!rows_.fits()) return No{kMisfit};
    const bool has_sums = is_wanted_[1] || is_wanted_[2];
    if (has_sums && rows_.kernel().length > kMostSums) {
      return No{"its rows are too long to be summed in a block"};
    }
    RowKernel& kernel = rows_.kernel();
    kernel.body = Body();
    if (is_wanted_[1]) kernel.sums.emplace_back("to_weight");
    if (is_wanted_[2]) kernel.sums.emplace_back("to_bias");
    std::vector<Call> calls;
    if (rows_.is_empty()) {
      for (int k : {1, 2}) AddClear(k, calls);
      return PrepareCalls(std::move(calls));
    }
    const int64_t num_parts = NumParts(target_, kernel);
    kernel.partial =
        scratch_.Take(num_parts * static_cast<int64_t>(kernel.sums.size()) *
                      kernel.length * ElementBytes(kernel.compute));
    calls.push_back(MakeRowCall(target_, kernel));
    for (size_t s = 0; s < kernel.sums.size(); ++s) AddSum(s, num_parts, calls);
    return PrepareCalls(std::move(calls), scratch_.bytes());
  }

 private:
  static constexpr int64_t kMostSums = 4096;  // 16 KiB of shared memory.

  std::string Body() const {
    std::string body = absl::StrCat(
        "  const number mean = mean_of(0), rstd = rstd_of(0);\n"
        "  number g[ITEMS], x[ITEMS], sum = 0, dot = 0;\n"
        "  FOR_ROW {\n    g[k] = grad(i);\n    x[k] = (in(i) - mean) * rstd;\n",
        is_wanted_[1] ? "    to_weight[k] += g[k] * x[k];\n" : "",
        is_wanted_[2] ? "    to_bias[k] += g[k];\n" : "",
        request_.Has(5) ? "    g[k] *= weight(i);\n" : "",
        "    sum += g[k];\n    dot += g[k] * x[k];\n  }\n");
    if (is_wanted_[0]) {
      body +=
          "  sum = row_sum(sum) / length;\n  dot = row_sum(dot) / length;\n"
          "  FOR_ROW put_out(i, rstd * (g[k] - sum - x[k] * dot));\n";
    }
    return body;
  }
  // Sums of no rows.
  void AddClear(int result, std::vector<Call>& calls) const {
    if (!is_wanted_[result]) return;
    calls.push_back(
        ClearCall{.at = {.arg = ResultLane(request_, result).arg},
                  .bytes = request_.results[result].type.extent_bytes()});
  }
  // Sum number `s` over the parts.
  void AddSum(size_t s, int64_t num_parts, std::vector<Call>& calls) {
    const RowKernel& kernel = rows_.kernel();
    const int result = kernel.sums[s] == "to_weight" ? 1 : 2;
    const Lane out = ResultLane(request_, result);
    const auto num_sums = static_cast<int64_t>(kernel.sums.size());
    Ref at = kernel.partial;
    at.offset +=
        static_cast<int64_t>(s) * kernel.length * ElementBytes(kernel.compute);
    Reduction r{.compute = kernel.compute,
                .kept_dims = out.dims,
                .reduced_dims = {num_parts}};
    r.inputs = {{.at = at,
                 .dtype = kernel.compute,
                 .kept_strides = RowMajorStrides(out.dims),
                 .reduced_strides = {num_sums * kernel.length}}};
    r.outputs = {{.at = {.arg = out.arg},
                  .dtype = out.dtype,
                  .strides = out.strides,
                  .result = "a.sum"}};
    AddReduceCalls(target_, r, scratch_, calls);
  }

  const Target& target_;
  const KernelRequest& request_;
  Scratch scratch_;
  Rows rows_;
  bool is_wanted_[3] = {};
};

Verdict PrepareLayerNormBackward(const Target& target,
                                 const KernelRequest& request) {
  return LayerNormBackward(target, request).Prepare();
}

}  // namespace

void RegisterNorms(const Kernels& kernels) {
  kernels.Add("aten.native_layer_norm", kFloats, PrepareLayerNorm);
  kernels.Add("mica.add_layer_norm", kFloats, PrepareAddLayerNorm);
  kernels.Add("aten.native_layer_norm_backward", kFloats,
              PrepareLayerNormBackward);
}

}  // namespace mica::cuda
