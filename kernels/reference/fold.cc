// Batch norm out of training, taken apart.

#include <cmath>

#include "kernels/reference/activation.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// One number for each channel, or `otherwise` for all.
struct Channels {
  Lane lane;
  bool is_given = false;
  double otherwise = 0;
  double At(void* const* args, int64_t channel) const {
    return is_given ? lane.Load<double>(args, channel * lane.strides[0])
                    : otherwise;
  }
};

Channels ChannelsOf(const KernelRequest& request, int param, double otherwise) {
  if (!request.Has(param)) return {.otherwise = otherwise};
  return {.lane = OperandLane(request, param), .is_given = true};
}

// gamma, beta, mean and variance: the parameters from `first` on, then eps.
struct Norm {
  Channels gamma, beta, mean, variance;
  double eps = 0;
  double Scale(void* const* args, int64_t c) const {
    return gamma.At(args, c) / std::sqrt(variance.At(args, c) + eps);
  }
  // Of x + bias.
  double Shift(void* const* args, int64_t c, double bias) const {
    return (bias - mean.At(args, c)) * Scale(args, c) + beta.At(args, c);
  }
};

Norm NormOf(const KernelRequest& request, int first) {
  return {.gamma = ChannelsOf(request, first, 1),
          .beta = ChannelsOf(request, first + 1, 0),
          .mean = ChannelsOf(request, first + 2, 0),
          .variance = ChannelsOf(request, first + 3, 0),
          .eps = request.Number(first + 4)};
}

Verdict PrepareFold(const KernelRequest& request) {
  const Lane weight = OperandLane(request, 0);
  const Channels bias = ChannelsOf(request, 1, 0);
  const Norm norm = NormOf(request, 2);
  const Lane out = ResultLane(request, 0);
  const Lane out_bias = ResultLane(request, 1);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (!out.IsUnused(args)) {
      for (Odometer at(weight.dims, {weight.strides, out.strides}); !at.done();
           at.Next()) {
        out.Store(args, at.offset(1),
                  weight.Load<double>(args, at.offset(0)) *
                      norm.Scale(args, at.index()[0]));
      }
    }
    if (out_bias.IsUnused(args)) return true;
    for (int64_t c = 0; c < weight.dims[0]; ++c) {
      out_bias.Store(args, c * out_bias.strides[0],
                     norm.Shift(args, c, bias.At(args, c)));
    }
    return true;
  });
}

Verdict PrepareScale(const KernelRequest& request) {
  const Norm norm = NormOf(request, 0);
  const Lane scale = ResultLane(request, 0);
  const Lane shift = ResultLane(request, 1);
  return RunBody([=](void* const* args, LaunchContext&) {
    for (int64_t c = 0; c < scale.dims[0]; ++c) {
      if (!scale.IsUnused(args)) {
        scale.Store(args, c * scale.strides[0], norm.Scale(args, c));
      }
      if (!shift.IsUnused(args)) {
        shift.Store(args, c * shift.strides[0], norm.Shift(args, c, 0));
      }
    }
    return true;
  });
}

Verdict PrepareScaleChannels(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Channels scale = ChannelsOf(request, 1, 1);
  const Channels shift = ChannelsOf(request, 2, 0);
  const std::string activation = request.String(3);
  const Lane out = ResultLane(request);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(in.dims, {in.strides, out.strides}); !at.done();
         at.Next()) {
      const int64_t c = at.index()[1];
      out.Store(args, at.offset(1),
                Activated(activation, in.Load<double>(args, at.offset(0)) *
                                              scale.At(args, c) +
                                          shift.At(args, c)));
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceFolds(KernelRegistry& registry) {
  AddReference(registry, "mica.fold_batch_norm", PrepareFold);
  AddReference(registry, "mica.batch_norm_scale", PrepareScale);
  AddReference(registry, "mica.scale_channels", PrepareScaleChannels);
}

}  // namespace mica
