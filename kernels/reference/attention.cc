// Attention, one query at a time.

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct AttentionState {
  Lane q, k, v, out, logsumexp;
  bool has_mask = false;
  Lane mask;
  Dims mask_strides;  // Over [b, h, l, s].
  bool is_causal = false;
  double scale = 1;
  int64_t heads_per_key = 1;
};

// What the mask adds to a score.
double MaskTerm(const AttentionState& state, void* const* args,
                int64_t offset) {
  if (!state.has_mask) return 0;
  if (state.mask.dtype == DType::kBool) {
    return state.mask.LoadTruth(args, offset) ? 0 : kMinusInfinity;
  }
  return state.mask.Load<double>(args, offset);
}

struct Query {
  int64_t batch, head, row;
};

std::vector<double> ScoresOf(const AttentionState& state, void* const* args,
                             Query at) {
  const int64_t key_head = at.head / state.heads_per_key;
  const int64_t q_at = at.batch * state.q.strides[0] +
                       at.head * state.q.strides[1] +
                       at.row * state.q.strides[2];
  const int64_t k_at =
      at.batch * state.k.strides[0] + key_head * state.k.strides[1];
  const int64_t mask_at = at.batch * state.mask_strides[0] +
                          at.head * state.mask_strides[1] +
                          at.row * state.mask_strides[2];
  std::vector<double> scores(state.k.dims[2], kMinusInfinity);
  for (int64_t s = 0; s < state.k.dims[2]; ++s) {
    if (state.is_causal && s > at.row) break;
    double dot = 0;
    for (int64_t e = 0; e < state.q.dims[3]; ++e) {
      dot += state.q.Load<double>(args, q_at + e * state.q.strides[3]) *
             state.k.Load<double>(
                 args, k_at + s * state.k.strides[2] + e * state.k.strides[3]);
    }
    scores[s] = state.scale * dot +
                MaskTerm(state, args, mask_at + s * state.mask_strides[3]);
  }
  return scores;
}

// Turns scores to weights that sum to 1; returns the log of their sum. A row
// that sees no key gets no weight at all, and 0.
double Normalize(std::vector<double>& scores) {
  double most = kMinusInfinity;
  for (double score : scores) most = Larger(most, score);
  const double shift = most == kMinusInfinity ? 0 : most;
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - shift);
  for (double& score : scores) score = sum == 0 ? 0 : score / sum;
  return sum == 0 ? 0 : shift + std::log(sum);
}

void RunQuery(const AttentionState& state, void* const* args, Query at) {
  std::vector<double> weights = ScoresOf(state, args, at);
  const double log_sum = Normalize(weights);
  const Lane& stats = state.logsumexp;
  if (!stats.IsUnused(args)) {
    stats.Store(args,
                at.batch * stats.strides[0] + at.head * stats.strides[1] +
                    at.row * stats.strides[2],
                log_sum);
  }
  if (state.out.IsUnused(args)) return;
  const int64_t key_head = at.head / state.heads_per_key;
  const int64_t v_at =
      at.batch * state.v.strides[0] + key_head * state.v.strides[1];
  const int64_t out_at = at.batch * state.out.strides[0] +
                         at.head * state.out.strides[1] +
                         at.row * state.out.strides[2];
  for (int64_t f = 0; f < state.v.dims[3]; ++f) {
    double sum = 0;
    for (int64_t s = 0; s < state.v.dims[2]; ++s) {
      if (weights[s] == 0) continue;
      sum += weights[s] *
             state.v.Load<double>(
                 args, v_at + s * state.v.strides[2] + f * state.v.strides[3]);
    }
    state.out.Store(args, out_at + f * state.out.strides[3], sum);
  }
}

Verdict PrepareAttention(const KernelRequest& request) {
  AttentionState state = {.q = OperandLane(request, 0),
                          .k = OperandLane(request, 1),
                          .v = OperandLane(request, 2),
                          .out = ResultLane(request, 0),
                          .logsumexp = ResultLane(request, 1)};
  state.is_causal = request.Bool(4);
  state.has_mask = request.Has(5);
  state.mask_strides = Dims(4, 0);
  if (state.has_mask) {
    state.mask = OperandLane(request, 5);
    state.mask_strides = BroadcastStrides(
        state.mask,
        {state.q.dims[0], state.q.dims[1], state.q.dims[2], state.k.dims[2]});
  }
  state.scale = request.Has(6)
                    ? request.Number(6)
                    : 1 / std::sqrt(static_cast<double>(state.q.dims[3]));
  state.heads_per_key = state.q.dims[1] / state.k.dims[1];
  return RunBody([state](void* const* args, LaunchContext&) {
    for (int64_t b = 0; b < state.q.dims[0]; ++b) {
      for (int64_t h = 0; h < state.q.dims[1]; ++h) {
        for (int64_t l = 0; l < state.q.dims[2]; ++l) {
          RunQuery(state, args, {b, h, l});
        }
      }
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceAttention(KernelRegistry& registry) {
  AddReference(registry, "aten._scaled_dot_product_flash_attention_for_cpu",
               PrepareAttention);
}

}  // namespace mica
