#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <utility>

#include "python/torch_side/recorder/recorder_impl.h"
#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/engine_tensors.h"

namespace mica {
namespace {

// Larger contents than these aren't copied into a tape.
constexpr int64_t kMaxConstantBytes = int64_t{64} << 20;

}  // namespace

Recorder::Impl::Storage& Recorder::Impl::StorageOf(const at::Tensor& tensor) {
  const c10::StorageImpl* impl =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  auto [it, is_new] = storages.try_emplace(impl);
  if (is_new) it->second.id = num_storages++;
  return it->second;
}

Recorder::Impl::Storage* Recorder::Impl::FindStorage(const at::Tensor& tensor) {
  const auto it = storages.find(
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  return it == storages.end() ? nullptr : &it->second;
}

TapeTensorId Recorder::Impl::Append(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto id = static_cast<TapeTensorId>(tape.tensors.size());
  TapeTensor record;
  record.dtype = ScalarTypeName(c10::typeMetaToScalarType(impl->dtype()));
  record.device = impl->device().str();
  record.sizes = impl->sizes().vec();
  record.strides = impl->strides().vec();
  record.offset = impl->storage_offset();
  Storage& storage = StorageOf(tensor);
  record.storage = storage.id;
  record.storage_bytes = static_cast<int64_t>(impl->unsafe_storage().nbytes());
  record.requires_grad = impl->requires_grad();
  record.is_conj = IsLazyConj(*impl);
  record.is_neg = IsLazyNeg(*impl);
  record.is_wrapped_number = impl->is_wrapped_number();
  if (storage.root == kNoTapeTensor) storage.root = id;
  tape.tensors.push_back(std::move(record));
  seen.push_back(
      {.tensor =
           c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
               tensor.getIntrusivePtr()),
       .storage = impl->unsafe_storage().getWeakStorageImpl(),
       .impl = impl,
       .storage_impl = impl->unsafe_storage().unsafeGetStorageImpl(),
       .version =
           impl->version_counter().enabled()
               ? static_cast<int64_t>(impl->version_counter().current_version())
               : -1,
       .has_python_object = impl->pyobj_slot()->load_pyobj() != nullptr});
  ids[impl] = id;
  return id;
}

bool Recorder::Impl::IsCurrent(TapeTensorId id,
                               const at::Tensor& tensor) const {
  const TapeTensor& record = tape.tensors[id];
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return seen[id].storage_impl ==
             impl->unsafe_storage().unsafeGetStorageImpl() &&
         record.offset == impl->storage_offset() &&
         record.is_conj == IsLazyConj(*impl) &&
         record.is_neg == IsLazyNeg(*impl) &&
         impl->sizes() == c10::IntArrayRef(record.sizes) &&
         impl->strides() == c10::IntArrayRef(record.strides);
}

TapeTensorId Recorder::Impl::IdOf(const at::Tensor& tensor,
                                  const std::string& op) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto it = ids.find(impl);
  if (it != ids.end() && IsCurrent(it->second, tensor)) return it->second;
  Storage* storage = FindStorage(tensor);
  const TapeTensorId root = storage == nullptr ? kNoTapeTensor : storage->root;
  const bool is_remade = it != ids.end();
  const TapeTensorId id = Append(tensor);
  seen[id].is_remade = is_remade;
  TapeTensor& record = tape.tensors[id];
  const bool is_alias = root != kNoTapeTensor;
  if (record.requires_grad &&
      (!is_alias || (!is_remade && seen[id].has_python_object))) {
    const GilHolder gil;  // Operators run without it.
    const PyRef object = PyRef::Steal(THPVariable_Wrap(tensor));
    if (object) callbacks.on_leaf(object.get(), is_alias);
  }
  if (is_alias) {
    // Of Tensor.data, or a tensor whose metadata changed in place.
    record.origin = TapeOrigin::kAlias;
    record.base = root;
    return id;
  }
  record.origin = TapeOrigin::kState;
  seen[id].unresolved = true;
  seen[id].first_op = op;
  seen[id].first_use = CurrentUserLine();
  seen[id].first_place = AddPlace();
  // A Python number on its way into an op: nobody else holds it.
  if (record.is_wrapped_number ||
      (record.sizes.empty() && !seen[id].has_python_object)) {
    MakeConstant(id, tensor);
  }
  return id;
}

void Recorder::Impl::MakeAnew(const at::Tensor& tensor, const TapeCall& user) {
  storages.erase(
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  const TapeTensorId id = Append(tensor);
  TapeTensor& record = tape.tensors[id];
  record.call = static_cast<int32_t>(tape.calls.size());
  record.output = 0;
  TapeCall call{
      .op = "aten.empty_strided",
      .schema =
          "aten::empty_strided(SymInt[] size, SymInt[] stride, "
          "*, ScalarType? dtype=None, Layout? layout=None, "
          "Device? device=None, bool? pin_memory=None) -> "
          "Tensor",
      .arg_names = {"size", "stride", "dtype", "layout", "device",
                    "pin_memory"},
      .args =
          {record.sizes, record.strides, TapeDtype{record.dtype}, {}, {}, {}},
      .outputs = {TapeTensorRef{id}}};
  call.file = user.file;
  call.line = user.line;
  call.place = user.place;
  AppendCall(std::move(call));
}

void Recorder::Impl::AppendCall(TapeCall call) {
  const ModuleScopes::Place place = scopes.Here();
  call.is_backward = place.is_backward;
  call.later_part = later_part;
  modules.push_back(place.module);
  nodes.push_back(NextGradientNode() - 1);
  if (!tracked_places.empty() || !untracked_places.empty()) {
    PlaceGradient(call);
  }
  tape.calls.push_back(std::move(call));
}

bool Recorder::Impl::MakeConstant(TapeTensorId id, const at::Tensor& view) {
  TapeTensor& record = tape.tensors[id];
  const at::NoGradGuard no_grad;
  // What memory holds, whatever the lazy bits say of it.
  const at::Tensor tensor =
      Stored(view).as_strided(record.sizes, record.strides, record.offset);
  // From the first element to the last, as they lie in memory: views of it may
  // show it in another order.
  int64_t extent = tensor.numel() == 0 ? 0 : 1;
  for (int64_t i = 0; i < tensor.dim() && extent > 0; ++i) {
    extent += (tensor.size(i) - 1) * tensor.stride(i);
  }
  const int64_t bytes = extent * static_cast<int64_t>(tensor.element_size());
  if (bytes > kMaxConstantBytes) return false;
  const at::Tensor dense = tensor.as_strided({extent}, {1}).contiguous();
  record.origin = TapeOrigin::kConstant;
  record.call = record.output = record.item = -1;
  record.bytes = std::make_shared<const std::string>(
      bytes == 0 ? std::string()
                 : std::string(static_cast<const char*>(dense.data_ptr()),
                               static_cast<size_t>(bytes)));
  seen[id].unresolved = false;
  return true;
}

}  // namespace mica
