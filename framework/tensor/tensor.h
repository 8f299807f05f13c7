// Bytes with a type: owned (Buffer, Tensor) or borrowed (TensorView).

#ifndef MICA_FRAMEWORK_TENSOR_TENSOR_H_
#define MICA_FRAMEWORK_TENSOR_TENSOR_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/device/place.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

class Device;

// Alignment, in bytes, of every buffer and arena slice.
inline constexpr int64_t kBufferAlignment = 64;

// `bytes` rounded up to a multiple of kBufferAlignment.
inline int64_t AlignUp(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Memory that frees itself: the host's, or a device's, which the host must not
// touch. Move-only.
class Buffer {
 public:
  Buffer() = default;
  // Of the host where `device` is null. Returns ResourceExhausted, with the
  // bytes asked and free, if there is no memory. Zero bytes give a valid,
  // non-null address too.
  static absl::StatusOr<Buffer> Allocate(
      int64_t bytes, std::shared_ptr<Device> device = nullptr);
  // Of the host's memory that lives as long as `owner`, which it shares.
  static Buffer Of(std::shared_ptr<void> owner, void* data, int64_t bytes);

  void* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }
  const std::shared_ptr<Device>& device() const {
    return data_.get_deleter().device;
  }

 private:
  struct Free {
    void operator()(void* data) const;
    std::shared_ptr<Device> device;  // Null: the host.
    std::shared_ptr<void> owner;     // If it isn't the buffer's to free.
  };
  std::unique_ptr<void, Free> data_;
  int64_t bytes_ = 0;
};

// Borrowed bytes: valid as long as their owner. `data` is the address of the
// element with all indices 0.
struct TensorView {
  void* data = nullptr;
  TensorType type;
  Place place = {};

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A tensor that shares ownership of its bytes.
class Tensor {
 public:
  Tensor() = default;
  // Uninitialised, row-major unless `type` has strides.
  static absl::StatusOr<Tensor> Allocate(
      const TensorType& type, std::shared_ptr<Device> device = nullptr);
  // In such memory; row-major unless `type` has strides.
  static Tensor Of(Buffer buffer, const TensorType& type) {
    return {std::make_shared<Buffer>(std::move(buffer)), type};
  }
  // A row-major copy of `view`, of the host's.
  static absl::StatusOr<Tensor> CopyOf(const TensorView& view);

  const TensorType& type() const { return type_; }
  void* data() const { return buffer_ ? buffer_->data() : nullptr; }
  TensorView view() const { return {data(), type_, place()}; }
  // Where the bytes lie.
  Place place() const;
  // Null: the host, or no bytes.
  std::shared_ptr<Device> device() const {
    return buffer_ ? buffer_->device() : nullptr;
  }

 private:
  Tensor(std::shared_ptr<Buffer> buffer, TensorType type)
      : buffer_(std::move(buffer)), type_(std::move(type)) {}
  std::shared_ptr<Buffer> buffer_;
  TensorType type_;
};

// Copies the elements of `from` to `to`, both of the host and of one dtype and
// dims and any strides. The two must not overlap.
void CopyElements(const TensorView& from, const TensorView& to);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_TENSOR_H_
