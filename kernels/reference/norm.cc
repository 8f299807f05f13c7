// Normalisation layers and dropout that keeps all.

#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

struct Moments {
  double mean = 0;
  double rstd = 0;
};

Moments MomentsOf(const std::vector<double>& list, double eps) {
  Moments moments;
  for (double x : list) moments.mean += x;
  moments.mean /= static_cast<double>(list.size());
  double squares = 0;
  for (double x : list) squares += (x - moments.mean) * (x - moments.mean);
  moments.rstd =
      1 / std::sqrt(squares / static_cast<double>(list.size()) + eps);
  return moments;
}

// Weight and bias, if given, addressed by their own strides.
struct Affine {
  bool has_weight = false, has_bias = false;
  Lane weight, bias;
  Dims weight_strides, bias_strides;  // Over the dims they are spread on.

  double Apply(void* const* args, double x, int64_t weight_at,
               int64_t bias_at) const {
    if (has_weight) x *= weight.Load<double>(args, weight_at);
    if (has_bias) x += bias.Load<double>(args, bias_at);
    return x;
  }
};

// `spread` gives the strides of a lane over the dims that are iterated.
template <typename Spread>
Affine MakeAffine(const KernelRequest& request, int weight, int bias,
                  Spread&& spread) {
  Affine affine;
  affine.has_weight = request.Has(weight);
  affine.has_bias = request.Has(bias);
  if (affine.has_weight) affine.weight = OperandLane(request, weight);
  if (affine.has_bias) affine.bias = OperandLane(request, bias);
  affine.weight_strides = spread(affine.has_weight, affine.weight);
  affine.bias_strides = spread(affine.has_bias, affine.bias);
  return affine;
}

// A lane's first axes and its last `num_inner` ones.
struct SplitLane {
  Dims outer_dims, outer_strides, inner_dims, inner_strides;
};

SplitLane SplitLast(const Lane& lane, int num_inner) {
  const int num_outer = lane.rank() - num_inner;
  SplitLane split;
  for (int i = 0; i < lane.rank(); ++i) {
    (i < num_outer ? split.outer_dims : split.inner_dims)
        .push_back(lane.dims[i]);
    (i < num_outer ? split.outer_strides : split.inner_strides)
        .push_back(lane.strides[i]);
  }
  return split;
}

// Writes the normalised row whose elements are `row`.
void WriteRow(const Lane& out, const SplitLane& split, const Affine& affine,
              void* const* args, int64_t out_at, const std::vector<double>& row,
              const Moments& moments) {
  size_t i = 0;
  for (Odometer at(
           split.inner_dims,
           {split.inner_strides, affine.weight_strides, affine.bias_strides});
       !at.done(); at.Next()) {
    const double x = (row[i++] - moments.mean) * moments.rstd;
    const double y = affine.Apply(args, x, at.offset(1), at.offset(2));
    // ATen adds a bias of zero, which leaves no negative one.
    out.Store(args, out_at + at.offset(0), affine.has_bias ? y : y + 0.0);
  }
}

Affine RowAffine(const KernelRequest& request, int weight, int rank) {
  return MakeAffine(request, weight, weight + 1,
                    [rank](bool is_given, const Lane& lane) {
                      return is_given ? lane.strides : Dims(rank, 0);
                    });
}

Verdict PrepareLayerNorm(const KernelRequest& request) {
  const int num_inner = static_cast<int>(request.Ints(1).size());
  const Lane in = OperandLane(request, 0);
  const Lane outs[] = {ResultLane(request, 0), ResultLane(request, 1),
                       ResultLane(request, 2)};
  const SplitLane x = SplitLast(in, num_inner);
  const SplitLane y = SplitLast(outs[0], num_inner);
  const Lane mean = outs[1], rstd = outs[2], out = outs[0];
  const SplitLane means = SplitLast(mean, num_inner);
  const SplitLane rstds = SplitLast(rstd, num_inner);
  const Affine affine = RowAffine(request, 2, num_inner);
  const double eps = request.Number(4);
  return RunBody([=](void* const* args, LaunchContext&) {
    std::vector<double> row;
    for (Odometer at(x.outer_dims, {x.outer_strides, y.outer_strides,
                                    means.outer_strides, rstds.outer_strides});
         !at.done(); at.Next()) {
      row.clear();
      for (Odometer inner(x.inner_dims, {x.inner_strides}); !inner.done();
           inner.Next()) {
        row.push_back(in.Load<double>(args, at.offset(0) + inner.offset(0)));
      }
      const Moments moments = MomentsOf(row, eps);
      if (!out.IsUnused(args)) {
        WriteRow(out, y, affine, args, at.offset(1), row, moments);
      }
      if (!mean.IsUnused(args)) mean.Store(args, at.offset(2), moments.mean);
      if (!rstd.IsUnused(args)) rstd.Store(args, at.offset(3), moments.rstd);
    }
    return true;
  });
}

Verdict PrepareAddLayerNorm(const KernelRequest& request) {
  const int num_inner = static_cast<int>(request.Ints(2).size());
  const Lane a = OperandLane(request, 0);
  const Lane b = OperandLane(request, 1);
  const Lane sum = ResultLane(request, 0);
  const Lane out = ResultLane(request, 1);
  const SplitLane as = SplitLast(a, num_inner);
  const SplitLane bs = SplitLast(b, num_inner);
  const SplitLane sums = SplitLast(sum, num_inner);
  const SplitLane outs = SplitLast(out, num_inner);
  const Affine affine = RowAffine(request, 3, num_inner);
  const double eps = request.Number(5);
  return RunBody([=](void* const* args, LaunchContext&) {
    std::vector<double> row;
    for (Odometer at(as.outer_dims, {as.outer_strides, bs.outer_strides,
                                     sums.outer_strides, outs.outer_strides});
         !at.done(); at.Next()) {
      row.clear();
      for (Odometer inner(as.inner_dims, {as.inner_strides, bs.inner_strides,
                                          sums.inner_strides});
           !inner.done(); inner.Next()) {
        double value = a.Load<double>(args, at.offset(0) + inner.offset(0)) +
                       b.Load<double>(args, at.offset(1) + inner.offset(1));
        if (sum.dtype == DType::kF32) value = static_cast<float>(value);
        row.push_back(value);
        if (!sum.IsUnused(args)) {
          sum.Store(args, at.offset(2) + inner.offset(2), value);
        }
      }
      if (!out.IsUnused(args)) {
        WriteRow(out, outs, affine, args, at.offset(3), row,
                 MomentsOf(row, eps));
      }
    }
    return true;
  });
}

// The strides of a [C] lane over [C, ...]; zeros if there is none.
Dims ChannelStrides(bool is_given, const Lane& lane, int rank) {
  Dims strides(rank, 0);
  if (is_given && rank > 0) strides[0] = lane.strides[0];
  return strides;
}

// Each group of channels of a sample, with its pixels, is one row.
Verdict PrepareGroupNorm(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request, 0);
  const Lane mean = ResultLane(request, 1);
  const Lane rstd = ResultLane(request, 2);
  const int64_t groups = request.Int(6);
  const int64_t channels = in.dims[1] / groups;
  const double eps = request.Number(7);
  SplitLane x = SplitLast(in, in.rank() - 1);
  SplitLane y = SplitLast(out, in.rank() - 1);
  x.inner_dims[0] = y.inner_dims[0] = channels;
  const Affine affine =
      MakeAffine(request, 1, 2, [&](bool is_given, const Lane& lane) {
        return ChannelStrides(is_given, lane, in.rank() - 1);
      });
  return RunBody([=](void* const* args, LaunchContext&) {
    std::vector<double> row;
    const Dims dims = {in.dims[0], groups};
    const Dims xs = {in.strides[0], channels * in.strides[1]};
    const Dims ys = {out.strides[0], channels * out.strides[1]};
    const Dims none = {0, 0};
    const Dims weights = {
        0, affine.has_weight ? channels * affine.weight.strides[0] : 0};
    const Dims biases = {
        0, affine.has_bias ? channels * affine.bias.strides[0] : 0};
    for (Odometer at(dims,
                     {xs, ys, mean.strides, rstd.strides, weights, biases});
         !at.done(); at.Next()) {
      row.clear();
      for (Odometer inner(x.inner_dims, {x.inner_strides}); !inner.done();
           inner.Next()) {
        row.push_back(in.Load<double>(args, at.offset(0) + inner.offset(0)));
      }
      const Moments moments = MomentsOf(row, eps);
      if (!mean.IsUnused(args)) mean.Store(args, at.offset(2), moments.mean);
      if (!rstd.IsUnused(args)) rstd.Store(args, at.offset(3), moments.rstd);
      if (out.IsUnused(args)) continue;
      size_t i = 0;
      for (Odometer inner(y.inner_dims, {y.inner_strides, affine.weight_strides,
                                         affine.bias_strides});
           !inner.done(); inner.Next()) {
        const double value = (row[i++] - moments.mean) * moments.rstd;
        out.Store(args, at.offset(1) + inner.offset(0),
                  affine.Apply(args, value, at.offset(4) + inner.offset(1),
                               at.offset(5) + inner.offset(2)));
      }
    }
    return true;
  });
}

Verdict PrepareBatchNorm(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request, 0);
  const Lane mean = OperandLane(request, 3);
  const Lane variance = OperandLane(request, 4);
  const double eps = request.Number(6);
  auto spread = [&](bool is_given, const Lane& lane) {
    Dims strides(in.rank(), 0);
    if (is_given) strides[1] = lane.strides[0];
    return strides;
  };
  const Affine affine = MakeAffine(request, 1, 2, spread);
  const Dims means = spread(true, mean);
  const Dims variances = spread(true, variance);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(in.dims, {in.strides, out.strides, means, variances,
                               affine.weight_strides, affine.bias_strides});
         !at.done(); at.Next()) {
      const double rstd =
          1 / std::sqrt(variance.Load<double>(args, at.offset(3)) + eps);
      const double x = (in.Load<double>(args, at.offset(0)) -
                        mean.Load<double>(args, at.offset(2))) *
                       rstd;
      out.Store(args, at.offset(1),
                affine.Apply(args, x, at.offset(4), at.offset(5)));
    }
    return true;
  });
}

Verdict PrepareDropout(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request, 0);
  const Lane mask = ResultLane(request, 1);
  return RunBody([=](void* const* args, LaunchContext&) {
    for (Odometer at(in.dims, {in.strides, out.strides, mask.strides});
         !at.done(); at.Next()) {
      if (!out.IsUnused(args) && IsFloating(in.dtype)) {
        out.Store(args, at.offset(1), in.Load<double>(args, at.offset(0)));
      } else if (!out.IsUnused(args)) {
        out.Store(args, at.offset(1), in.Load<int64_t>(args, at.offset(0)));
      }
      if (!mask.IsUnused(args)) {
        mask.Store(args, at.offset(2), int64_t{1});
      }
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceNorms(KernelRegistry& registry) {
  AddReference(registry, "aten.native_layer_norm", PrepareLayerNorm);
  AddReference(registry, "mica.add_layer_norm", PrepareAddLayerNorm);
  AddReference(registry, "aten.native_group_norm", PrepareGroupNorm);
  AddReference(registry, "aten._native_batch_norm_legit_no_training",
               PrepareBatchNorm);
  AddReference(registry, "aten.native_dropout", PrepareDropout);
}

}  // namespace mica
