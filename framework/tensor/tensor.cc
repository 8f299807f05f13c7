#include "framework/tensor/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/status.h"
#include "framework/device/device.h"

namespace mica {
namespace {

int64_t FreeMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) *
         sysconf(_SC_PAGESIZE);
}

// Copies dimension `axis` and those inside it.
void CopyAxis(const char* from, const Dims& from_strides, char* to,
              const Dims& to_strides, const Dims& dims, int axis,
              int64_t element_bytes) {
  if (axis == static_cast<int>(dims.size())) {
    std::memcpy(to, from, element_bytes);
    return;
  }
  for (int64_t i = 0; i < dims[axis]; ++i) {
    CopyAxis(from + i * from_strides[axis] * element_bytes, from_strides,
             to + i * to_strides[axis] * element_bytes, to_strides, dims,
             axis + 1, element_bytes);
  }
}

// Memory that is touched for the first time costs a trip into the system for
// each page: of 4 KiB, a new arena of 28 MB takes as long as a tenth of the
// run.
constexpr int64_t kHugePage = int64_t{2} << 20;
// From here on memory is asked for in huge pages, if the system has them.
constexpr int64_t kFewHugePages = 2 * kHugePage;
// A page that is there takes a tenth of this to fill with zeros. One that the
// system makes room for first takes five times as long, and the weights of a
// model half a second: then small pages are better.
constexpr absl::Duration kMostOfAPage = absl::Milliseconds(1);

// So much of an allocation is touched to find out.
constexpr int64_t kMostTouched = 64 * kHugePage;

std::atomic<bool> has_huge_pages = true;

// Touches memory, for which huge pages were asked, until they turn out to be
// scarce.
void TakeHugePages(char* data, int64_t bytes) {
  const absl::Time start = absl::Now();
  const int64_t touched = std::min(bytes, kMostTouched);
  for (int64_t at = 0; at < touched; at += kHugePage) {
    *const_cast<volatile char*>(data + at) = 0;
    const auto pages = static_cast<double>(at / kHugePage + 1);
    if (absl::Now() - start <= (pages + 1) * kMostOfAPage) continue;
    has_huge_pages = false;
    ::madvise(data + at + kHugePage, bytes - at - kHugePage, MADV_NOHUGEPAGE);
    return;
  }
}

void* AllocateHugePages(int64_t bytes) {
  // A multiple of the alignment, as aligned_alloc() wants it: what lies behind
  // `bytes` is never touched, and of 4 KiB pages.
  const int64_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* data = std::aligned_alloc(kHugePage, rounded);
  if (data == nullptr || !has_huge_pages) return data;
  const int64_t whole = bytes / kHugePage * kHugePage;
  // Advice: that it can't be followed is no error.
  if (::madvise(data, whole, MADV_HUGEPAGE) == 0) {
    TakeHugePages(static_cast<char*>(data), whole);
  }
  return data;
}

}  // namespace

void Buffer::Free::operator()(void* data) const {
  if (owner != nullptr) return;
  if (device == nullptr) {
    std::free(data);
  } else {
    device->Free(data);
  }
}

absl::StatusOr<Buffer> Buffer::Allocate(int64_t bytes,
                                        std::shared_ptr<Device> device) {
  Buffer buffer;
  if (device != nullptr) {
    MICA_ASSIGN_OR_RETURN(void* data, device->Allocate(bytes));
    buffer.data_ =
        std::unique_ptr<void, Free>(data, Free{std::move(device), {}});
    buffer.bytes_ = bytes;
    return buffer;
  }
  void* data = nullptr;
  if (bytes >= 0 && bytes <= kMaxTensorBytes) {
    data = bytes >= kFewHugePages
               ? AllocateHugePages(bytes)
               : std::aligned_alloc(
                     kBufferAlignment,
                     std::max<int64_t>(AlignUp(bytes), kBufferAlignment));
  }
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory: ", bytes, " bytes asked, ", FreeMemoryBytes(),
                     " bytes free"));
  }
  buffer.data_.reset(data);
  buffer.bytes_ = bytes;
  return buffer;
}

Buffer Buffer::Of(std::shared_ptr<void> owner, void* data, int64_t bytes) {
  Buffer buffer;
  buffer.data_ = std::unique_ptr<void, Free>(data, Free{{}, std::move(owner)});
  buffer.bytes_ = bytes;
  return buffer;
}

absl::StatusOr<Tensor> Tensor::Allocate(const TensorType& type,
                                        std::shared_ptr<Device> device) {
  MICA_ASSIGN_OR_RETURN(
      Buffer buffer, Buffer::Allocate(type.extent_bytes(), std::move(device)));
  return Tensor(std::make_shared<Buffer>(std::move(buffer)), type);
}

Place Tensor::place() const {
  const std::shared_ptr<Device> on = device();
  return on == nullptr ? Place() : on->place();
}

absl::StatusOr<Tensor> Tensor::CopyOf(const TensorView& view) {
  TensorType type = view.type;
  type.strides.clear();
  MICA_ASSIGN_OR_RETURN(Tensor tensor, Allocate(type));
  CopyElements(view, tensor.view());
  return tensor;
}

void CopyElements(const TensorView& from, const TensorView& to) {
  if (from.type.is_row_major() && to.type.is_row_major()) {
    std::memcpy(to.data, from.data, from.type.num_bytes());
    return;
  }
  CopyAxis(from.as<char>(), from.type.EffectiveStrides(), to.as<char>(),
           to.type.EffectiveStrides(), from.type.dims, /*axis=*/0,
           ElementBytes(from.type.dtype));
}

}  // namespace mica
