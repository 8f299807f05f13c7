#include "executor/device/exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/binding/binding.h"
#include "framework/base/status.h"
#include "framework/device/transfer.h"

namespace mica {
namespace {

// Whether the bytes lie as the input's do.
bool LiesAlike(const TensorView& feed, const Tensor& input) {
  return CheckFed("", input.type(), feed.type).ok();
}

}  // namespace

absl::Status QueueFeed(absl::string_view name, const TensorView& feed,
                       const Tensor& input, StreamId stream) {
  Device& device = *input.device();
  const int64_t bytes = input.type().extent_bytes();
  const bool is_hosts = feed.place.is_host();
  if (!is_hosts && feed.place != device.place()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "feed \"", name, "\": wants a tensor on ", device.place().ToString(),
        " or on the host, got one on ", feed.place.ToString()));
  }
  if (LiesAlike(feed, input)) {
    return device.Copy(input.data(), feed.data, bytes,
                       is_hosts ? CopyKind::kToDevice : CopyKind::kWithin,
                       stream);
  }
  if (!is_hosts) return CheckFed(name, input.type(), feed.type);
  MICA_ASSIGN_OR_RETURN(const Tensor copy, Tensor::Allocate(input.type()));
  CopyElements(feed, copy.view());
  return device.Copy(input.data(), copy.data(), bytes, CopyKind::kToDevice,
                     stream);
}

absl::Status CopyBack(const Tensor& input, const TensorView& feed,
                      StreamId stream) {
  Device& device = *input.device();
  const int64_t bytes = input.type().extent_bytes();
  if (LiesAlike(feed, input)) {
    MICA_RETURN_IF_ERROR(device.Copy(
        feed.data, input.data(), bytes,
        feed.place.is_host() ? CopyKind::kToHost : CopyKind::kWithin, stream));
    return device.Synchronize(stream).status;
  }
  MICA_ASSIGN_OR_RETURN(const Tensor copy, CopyToHost(input));
  CopyElements(copy.view(), feed);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> TakeResults(
    const std::vector<Tensor>& outputs, const std::shared_ptr<Device>& device,
    StreamId stream) {
  std::vector<Tensor> results;
  for (const Tensor& output : outputs) {
    MICA_ASSIGN_OR_RETURN(Tensor result,
                          Tensor::Allocate(output.type(), device));
    MICA_RETURN_IF_ERROR(device->Copy(result.data(), output.data(),
                                      output.type().extent_bytes(),
                                      CopyKind::kWithin, stream));
    results.push_back(std::move(result));
  }
  MICA_RETURN_IF_ERROR(device->Synchronize(stream).status);
  return results;
}

}  // namespace mica
