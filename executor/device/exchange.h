// What a run on a device is fed with, and gives.

#ifndef MICA_EXECUTOR_DEVICE_EXCHANGE_H_
#define MICA_EXECUTOR_DEVICE_EXCHANGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device/device.h"
#include "framework/tensor/tensor.h"

namespace mica {

// Queues the copy of a feed, of the host or of the same device, to the memory
// of the input `name`. InvalidArgument for one of another place, and for one on
// the device whose strides aren't the input's.
absl::Status QueueFeed(absl::string_view name, const TensorView& feed,
                       const Tensor& input, StreamId stream);

// The other way, for an input that the run has updated; returns when the feed
// has its new values.
absl::Status CopyBack(const Tensor& input, const TensorView& feed,
                      StreamId stream);

// Copies of what a Job will write again; they are there when this returns.
absl::StatusOr<std::vector<Tensor>> TakeResults(
    const std::vector<Tensor>& outputs, const std::shared_ptr<Device>& device,
    StreamId stream);

}  // namespace mica

#endif  // MICA_EXECUTOR_DEVICE_EXCHANGE_H_
