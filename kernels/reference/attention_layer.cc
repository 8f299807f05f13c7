// A whole attention layer: projections, heads, and the projection back.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct LayerLanes {
  Lane inputs[3];  // Query, key, value: [b, l, e].
  Lane qkv_weight, qkv_bias, proj_weight, proj_bias, out, weights;
  bool has_mask = false;
  Lane mask;
  Dims mask_strides;  // Over [b, h, l, s].
  bool is_averaged = false;
  int64_t heads = 1;
  int64_t width() const { return inputs[0].dims[2]; }
};

// Row by row: weight row r times `row`, plus bias r, for rows first..first+e-1.
std::vector<double> Project(const Lane& weight, const Lane& bias,
                            void* const* args, const std::vector<double>& row,
                            int64_t first) {
  const auto n = static_cast<int64_t>(row.size());
  std::vector<double> out(row.size());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t r = first + i;
    double sum = bias.Load<double>(args, r * bias.strides[0]);
    for (int64_t j = 0; j < n; ++j) {
      sum += row[j] * weight.Load<double>(
                          args, r * weight.strides[0] + j * weight.strides[1]);
    }
    out[i] = sum;
  }
  return out;
}

using Rows = std::vector<std::vector<double>>;

Rows ProjectInput(const LayerLanes& s, void* const* args, int part, int64_t b) {
  const Lane& x = s.inputs[part];
  Rows rows;
  for (int64_t l = 0; l < x.dims[1]; ++l) {
    std::vector<double> row(s.width());
    for (int64_t e = 0; e < s.width(); ++e) {
      row[e] = x.Load<double>(
          args, b * x.strides[0] + l * x.strides[1] + e * x.strides[2]);
    }
    rows.push_back(
        Project(s.qkv_weight, s.qkv_bias, args, row, part * s.width()));
  }
  return rows;
}

bool IsMasked(const LayerLanes& s, void* const* args, int64_t b, int64_t h,
              int64_t l, int64_t k) {
  return s.has_mask &&
         s.mask.LoadTruth(args, b * s.mask_strides[0] + h * s.mask_strides[1] +
                                    l * s.mask_strides[2] +
                                    k * s.mask_strides[3]);
}

// Softmax of one query's scores with all keys.
std::vector<double> Attend(const LayerLanes& s, void* const* args,
                           const std::vector<double>& q, const Rows& keys,
                           int64_t b, int64_t h, int64_t l) {
  const int64_t size = s.width() / s.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  std::vector<double> scores(keys.size(), kMinusInfinity);
  double most = kMinusInfinity;
  for (size_t k = 0; k < keys.size(); ++k) {
    if (IsMasked(s, args, b, h, l, static_cast<int64_t>(k))) continue;
    double dot = 0;
    for (int64_t e = h * size; e < (h + 1) * size; ++e)
      dot += q[e] * keys[k][e];
    scores[k] = dot * scale;
    most = Larger(most, scores[k]);
  }
  const double shift = most == kMinusInfinity ? 0 : most;
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - shift);
  for (double& score : scores) score = sum == 0 ? 0 : score / sum;
  return scores;
}

void AddWeights(const LayerLanes& s, void* const* args,
                const std::vector<double>& weights, int64_t b, int64_t h,
                int64_t l) {
  const Lane& out = s.weights;
  for (size_t k = 0; k < weights.size(); ++k) {
    const auto key = static_cast<int64_t>(k);
    if (!s.is_averaged) {
      out.Store(args,
                b * out.strides[0] + h * out.strides[1] + l * out.strides[2] +
                    key * out.strides[3],
                weights[k]);
      continue;
    }
    const int64_t at =
        b * out.strides[0] + l * out.strides[1] + key * out.strides[2];
    const double before = h == 0 ? 0 : out.Load<double>(args, at);
    out.Store(args, at, before + weights[k] / static_cast<double>(s.heads));
  }
}

void RunSample(const LayerLanes& s, void* const* args, int64_t b) {
  const Rows q = ProjectInput(s, args, 0, b), k = ProjectInput(s, args, 1, b);
  const Rows v = ProjectInput(s, args, 2, b);
  const int64_t size = s.width() / s.heads;
  for (int64_t l = 0; l < static_cast<int64_t>(q.size()); ++l) {
    std::vector<double> joined(s.width());
    for (int64_t h = 0; h < s.heads; ++h) {
      const std::vector<double> weights = Attend(s, args, q[l], k, b, h, l);
      if (!s.weights.IsUnused(args) && s.weights.rank() > 1) {
        AddWeights(s, args, weights, b, h, l);
      }
      for (size_t i = 0; i < weights.size(); ++i) {
        for (int64_t e = h * size; e < (h + 1) * size; ++e) {
          joined[e] += weights[i] * v[i][e];
        }
      }
    }
    if (s.out.IsUnused(args)) continue;
    const auto row = Project(s.proj_weight, s.proj_bias, args, joined, 0);
    for (int64_t e = 0; e < s.width(); ++e) {
      s.out.Store(
          args,
          b * s.out.strides[0] + l * s.out.strides[1] + e * s.out.strides[2],
          row[e]);
    }
  }
}

// Over [b, h, l, s]; see the operator's description.
Dims MaskStrides(const Lane& mask, int64_t mask_type, const Dims& scores) {
  if (mask_type == 0) {
    const Dims own = BroadcastStrides(mask, {scores[2], scores[3]});
    return {0, 0, own[0], own[1]};
  }
  if (mask_type == 1) {
    const Dims own = BroadcastStrides(mask, {scores[0], scores[3]});
    return {own[0], 0, 0, own[1]};
  }
  return BroadcastStrides(mask, scores);
}

Verdict PrepareAttentionLayer(const KernelRequest& request) {
  LayerLanes s = {.inputs = {OperandLane(request, 0), OperandLane(request, 1),
                             OperandLane(request, 2)},
                  .qkv_weight = OperandLane(request, 5),
                  .qkv_bias = OperandLane(request, 6),
                  .proj_weight = OperandLane(request, 7),
                  .proj_bias = OperandLane(request, 8),
                  .out = ResultLane(request, 0),
                  .weights = ResultLane(request, 1),
                  .has_mask = request.Has(9),
                  .is_averaged = request.Bool(11),
                  .heads = request.Int(4)};
  if (s.has_mask) {
    s.mask = OperandLane(request, 9);
    s.mask_strides = MaskStrides(s.mask, request.Has(12) ? request.Int(12) : 2,
                                 {s.inputs[0].dims[0], s.heads,
                                  s.inputs[0].dims[1], s.inputs[1].dims[1]});
  }
  return RunBody([s](void* const* args, LaunchContext&) {
    for (int64_t b = 0; b < s.inputs[0].dims[0]; ++b) RunSample(s, args, b);
    return true;
  });
}

}  // namespace

void RegisterReferenceAttentionLayer(KernelRegistry& registry) {
  AddReference(registry, "aten._native_multi_head_attention",
               PrepareAttentionLayer);
}

}  // namespace mica
