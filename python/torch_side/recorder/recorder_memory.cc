#include "absl/strings/str_cat.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/recorder/recorder_impl.h"

namespace mica {
namespace {

// Larger storages aren't watched element by element.
constexpr int64_t kMaxWatchedElements = int64_t{16} << 20;

// Calls `visit(index)` for each element of a strided tensor, by its distance
// from the storage's start, until that returns false; false if it did.
template <typename F>
bool ForEachElement(const c10::TensorImpl& impl, size_t dim, int64_t offset,
                    F&& visit) {
  if (dim == impl.sizes().size()) return visit(offset);
  for (int64_t i = 0; i < impl.sizes()[dim]; ++i) {
    if (!ForEachElement(impl, dim + 1, offset + i * impl.strides()[dim],
                        visit)) {
      return false;
    }
  }
  return true;
}

int64_t NumStorageElements(const c10::TensorImpl& impl) {
  const auto item = static_cast<int64_t>(impl.itemsize());
  return item == 0
             ? 0
             : static_cast<int64_t>(impl.unsafe_storage().nbytes()) / item;
}

}  // namespace

void Recorder::Impl::NoteOverwrite(const at::Tensor& tensor) {
  Storage* storage = FindStorage(tensor);
  if (storage == nullptr || !storage->raw) return;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const int64_t count = NumStorageElements(impl);
  if (impl.is_non_overlapping_and_dense() && impl.numel() >= count) {
    storage->raw = false;
    return;
  }
  if (count > kMaxWatchedElements) return;
  storage->CountIn(count);
  ForEachElement(impl, 0, impl.storage_offset(), [&](int64_t at) {
    storage->written[static_cast<size_t>(at)] = true;
    return true;
  });
}

bool Recorder::Impl::NoteCopy(const at::Tensor& to, const at::Tensor& from) {
  Storage* to_storage = FindStorage(to);
  const Storage* from_storage = FindStorage(from);
  if (to_storage == nullptr || !to_storage->raw || from_storage == nullptr ||
      !from_storage->raw || from_storage->of_python ||
      to.sizes() != from.sizes()) {
    return false;
  }
  const c10::TensorImpl& to_impl = *to.unsafeGetTensorImpl();
  const c10::TensorImpl& from_impl = *from.unsafeGetTensorImpl();
  const int64_t count = NumStorageElements(to_impl);
  if (count > kMaxWatchedElements ||
      static_cast<int64_t>(from_storage->written.size()) !=
          NumStorageElements(from_impl)) {
    return false;
  }
  std::vector<bool> copied;
  ForEachElement(from_impl, 0, from_impl.storage_offset(), [&](int64_t at) {
    copied.push_back(from_storage->written[static_cast<size_t>(at)]);
    return true;
  });
  to_storage->CountIn(count);
  auto next = copied.begin();
  ForEachElement(to_impl, 0, to_impl.storage_offset(), [&](int64_t at) {
    to_storage->written[static_cast<size_t>(at)] = *next++;
    return true;
  });
  return true;
}

bool Recorder::Impl::IsWritten(const at::Tensor& tensor,
                               const Storage& storage) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.numel() == 0) return true;
  if (static_cast<int64_t>(storage.written.size()) !=
      NumStorageElements(impl)) {
    return false;
  }
  return ForEachElement(impl, 0, impl.storage_offset(), [&](int64_t at) {
    return storage.written[static_cast<size_t>(at)];
  });
}

void Recorder::Impl::SettleRaw(const at::Tensor& tensor, Recorder* owner,
                               const std::string& op) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) {
    return;
  }
  Storage* storage = FindStorage(tensor);
  if (storage == nullptr || !storage->raw || IsWritten(tensor, *storage)) {
    return;
  }
  storage->raw = false;
  if (!storage->of_python) {
    owner->Refuse({.reason = absl::StrCat(
                       op, ": reads memory that no recorded operator wrote"),
                   .mend = "an operator that computes in C++ by itself "
                           "(max_pool1d does), or torch.empty, made it",
                   .at = CurrentUserLine()});
    return;
  }
  const int32_t call = tape.tensors[storage->root].call;
  if (!MakeConstant(storage->root, tensor)) {
    owner->Refuse({.reason = absl::StrCat(op,
                                          ": reads more than 64 MiB that "
                                          "no recorded operator wrote"),
                   .at = CurrentUserLine()});
    return;
  }
  dead_calls.insert(call);
}

}  // namespace mica
