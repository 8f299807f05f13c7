// The C API's errors, tensors and types.

#include <new>

#include "framework/tensor/dtype.h"
#include "sdk/handles.h"

namespace mica {
namespace {

static_assert(static_cast<int>(DType::kBool) == MICA_BOOL);
static_assert(static_cast<int>(DType::kI64) == MICA_I64);
static_assert(static_cast<int>(DType::kF16) == MICA_F16);
static_assert(static_cast<int>(DType::kBF16) == MICA_BF16);
static_assert(static_cast<int>(DType::kF32) == MICA_F32);
static_assert(static_cast<int>(DType::kC128) == MICA_C128);
static_assert(kNumDTypes == MICA_C128 + 1);

bool IsDType(mica_dtype dtype) { return dtype >= 0 && dtype < kNumDTypes; }

mica_code CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return MICA_OK;
    case absl::StatusCode::kCancelled:
      return MICA_CANCELLED;
    case absl::StatusCode::kInvalidArgument:
      return MICA_INVALID_ARGUMENT;
    case absl::StatusCode::kNotFound:
      return MICA_NOT_FOUND;
    case absl::StatusCode::kAlreadyExists:
      return MICA_ALREADY_EXISTS;
    case absl::StatusCode::kPermissionDenied:
      return MICA_PERMISSION_DENIED;
    case absl::StatusCode::kResourceExhausted:
      return MICA_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kFailedPrecondition:
      return MICA_FAILED_PRECONDITION;
    case absl::StatusCode::kAborted:
      return MICA_ABORTED;
    case absl::StatusCode::kOutOfRange:
      return MICA_OUT_OF_RANGE;
    case absl::StatusCode::kUnimplemented:
      return MICA_UNIMPLEMENTED;
    case absl::StatusCode::kInternal:
      return MICA_INTERNAL;
    case absl::StatusCode::kUnavailable:
      return MICA_UNAVAILABLE;
    case absl::StatusCode::kDataLoss:
      return MICA_DATA_LOSS;
    default:
      return MICA_UNKNOWN;
  }
}

}  // namespace

mica_error* ErrorOf(const absl::Status& status) {
  if (status.ok()) return nullptr;
  return new mica_error{status, std::string(status.message())};
}

absl::Status NullArgument(absl::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is null"));
}

}  // namespace mica

extern "C" {

int32_t mica_abi_version(void) { return MICA_ABI_VERSION; }
const char* mica_version(void) { return MICA_VERSION; }

mica_code mica_error_code(const mica_error* error) {
  return error == nullptr ? MICA_OK : mica::CodeOf(error->status.code());
}
const char* mica_error_message(const mica_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
void mica_error_free(mica_error* error) { delete error; }

int64_t mica_dtype_bytes(mica_dtype dtype) {
  if (!mica::IsDType(dtype)) return 0;
  return mica::ElementBytes(static_cast<mica::DType>(dtype));
}
const char* mica_dtype_name(mica_dtype dtype) {
  if (!mica::IsDType(dtype)) return nullptr;
  // A literal, so that a 0 ends it.
  return mica::DTypeName(static_cast<mica::DType>(dtype)).data();
}

mica_view mica_tensor_view(const mica_tensor* tensor) {
  if (tensor == nullptr) return {};
  return {.data = tensor->tensor.data(),
          .dtype = static_cast<mica_dtype>(tensor->tensor.type().dtype),
          .rank = static_cast<int32_t>(tensor->dims.size()),
          .dims = tensor->dims.data(),
          .strides = tensor->strides.data()};
}
void mica_tensor_free(mica_tensor* tensor) { delete tensor; }

mica_cancel* mica_cancel_new(void) { return new (std::nothrow) mica_cancel; }
void mica_cancel_set(mica_cancel* cancel) {
  if (cancel != nullptr) cancel->handle.Cancel();
}
void mica_cancel_reset(mica_cancel* cancel) {
  if (cancel != nullptr) cancel->handle.Reset();
}
void mica_cancel_free(mica_cancel* cancel) { delete cancel; }

}  // extern "C"
