#include "python/torch_side/tensors/tensor_access.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/hit_code.h"
#include "python/torch_side/tensors/engine_tensors.h"
#include "python/torch_side/tensors/result_memory.h"
#include "python/torch_side/tensors/torch_compat.h"

namespace mica {
namespace {

at::TensorImpl* Impl(PyObject* tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl();
}

template <typename F>
auto OrPythonError(F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    PyErr_SetString(PyExc_MemoryError, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return decltype(body()){};
}

// torch raises where it is asked for sizes that a tensor doesn't have.
bool HasSizes(const c10::TensorImpl& impl) {
  return !impl.key_set().has(c10::DispatchKey::NestedTensor) &&
         !impl.has_symbolic_sizes_strides();
}
bool HasStrides(const c10::TensorImpl& impl) {
  return HasSizes(impl) && impl.layout() == c10::kStrided;
}

// Where `offset` leads, in elements of `like`'s dtype: it counts those of
// `base`'s, but real ones where one of the two is complex.
int64_t StorageOffset(const c10::TensorImpl& base, const TensorMeta& like,
                      int64_t offset) {
  const bool was_complex = c10::isComplexType(base.dtype().toScalarType());
  const bool is_complex =
      c10::isComplexType(static_cast<c10::ScalarType>(like.dtype));
  if (was_complex == is_complex) return base.storage_offset() + offset;
  return was_complex ? 2 * base.storage_offset() + offset
                     : (base.storage_offset() + offset) / 2;
}

// Another tensor over the memory, unknown to autograd but for writes.
PyObject* NewAlias(const at::Tensor& base, const TensorMeta& like,
                   int64_t offset) {
  const c10::TensorImpl* impl = base.unsafeGetTensorImpl();
  std::optional<c10::InferenceMode> inference;
  if (base.is_inference() && !c10::InferenceMode::is_enabled()) {
    inference.emplace(true);
  }
  auto alias = impl->shallow_copy_and_detach(
      impl->version_counter(), /*allow_tensor_metadata_change=*/true);
  const auto dtype = static_cast<c10::ScalarType>(like.dtype);
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, like.key_set);
  alias->_set_conj(false);
  if (alias->dtype().toScalarType() != dtype) {
    alias->set_storage_and_dtype(impl->storage(),
                                 c10::scalarTypeToTypeMeta(dtype));
  }
  alias->_set_conj(keys.has(c10::DispatchKey::Conjugate));
  alias->_set_neg(keys.has(c10::DispatchKey::Negative));
  alias->set_sizes_and_strides(
      c10::IntArrayRef(like.sizes.data(), like.sizes.size()),
      c10::IntArrayRef(like.strides.data(), like.strides.size()),
      StorageOffset(*impl, like, offset));
  return THPVariable_Wrap(at::Tensor(std::move(alias)));
}

}  // namespace

bool IsTensor(PyObject* object) { return IsTensorType(Py_TYPE(object)); }

bool IsTensorType(PyTypeObject* type) {
  if (THPVariable_CheckTypeExact(type)) return true;
  return PyType_IsSubtype(type,
                          reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool IsPlainTensor(PyObject* object) {
  return THPVariable_CheckTypeExact(Py_TYPE(object));
}

MICA_HIT_CODE bool HasOwnAttributes(PyObject* tensor) {
  PyObject** dict = _PyObject_GetDictPtr(tensor);
  if (dict == nullptr || *dict == nullptr) return false;
  Py_ssize_t position = 0;
  PyObject* name = nullptr;
  while (PyDict_Next(*dict, &position, &name, nullptr) != 0) {
    const char* text =
        PyUnicode_Check(name) != 0 ? PyUnicode_AsUTF8(name) : nullptr;
    constexpr absl::string_view kDynamo = "_dynamo_";
    if (text == nullptr || !absl::StartsWith(text, kDynamo)) return true;
  }
  return false;
}

bool IsTorchConstant(PyObject* object) {
  return THPDtype_Check(object) || THPDevice_Check(object) ||
         THPLayout_Check(object) || THPMemoryFormat_Check(object);
}

bool SameTorchConstant(PyObject* a, PyObject* b) {
  if (THPDevice_Check(a)) {
    return reinterpret_cast<THPDevice*>(a)->device ==
           reinterpret_cast<THPDevice*>(b)->device;
  }
  return a == b;
}

const void* TensorImplOf(PyObject* tensor) { return Impl(tensor); }

const void* StorageOf(PyObject* tensor) {
  const at::TensorImpl* impl = Impl(tensor);
  return impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl()
                             : nullptr;
}

void* DataOf(PyObject* tensor) {
  const at::TensorImpl* impl = Impl(tensor);
  if (!impl->has_storage()) return nullptr;
  char* start = static_cast<char*>(
      const_cast<void*>(impl->unsafe_storage().unsafeGetStorageImpl()->data()));
  if (start == nullptr) return nullptr;
  return start + impl->storage_offset() *
                     static_cast<int64_t>(impl->dtype().itemsize());
}

std::shared_ptr<void> HoldMemory(PyObject* tensor) {
  return std::make_shared<c10::Storage>(Impl(tensor)->unsafe_storage());
}

int64_t StorageOffsetOf(PyObject* tensor) {
  return Impl(tensor)->storage_offset();
}

int64_t ItemBytes(PyObject* tensor) {
  return static_cast<int64_t>(Impl(tensor)->itemsize());
}

int64_t NumElements(PyObject* tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl()->numel();
}

std::string ElementBytes(PyObject* tensor) {
  const c10::TensorImpl& impl =
      *THPVariable_Unpack(tensor).unsafeGetTensorImpl();
  const size_t size = impl.itemsize();
  const auto* data = static_cast<const char*>(DataOf(tensor));
  if (data == nullptr) return "";
  const int64_t count = impl.numel();
  std::string bytes;
  bytes.reserve(static_cast<size_t>(count) * size);
  std::vector<int64_t> index(static_cast<size_t>(impl.dim()));
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      at += index[axis] * impl.strides()[axis];
    }
    bytes.append(data + at * static_cast<int64_t>(size), size);
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < impl.sizes()[axis]) break;
      index[axis] = 0;
    }
  }
  return bytes;
}

int64_t VersionOf(PyObject* tensor) {
  at::TensorImpl* impl = Impl(tensor);
  const c10::VariableVersion& version = impl->version_counter();
  // A parameter made in inference mode has a counter that nothing counts with.
  if (!version.enabled() || impl->is_inference()) return -1;
  return version.current_version();
}

bool IsCountedInference(PyObject* tensor) {
  at::TensorImpl* impl = Impl(tensor);
  return impl->is_inference() && impl->version_counter().enabled();
}

bool RequiresGrad(PyObject* tensor) { return Impl(tensor)->requires_grad(); }
bool RetainsGrad(PyObject* tensor) {
  return THPVariable_Unpack(tensor).retains_grad();
}

TensorMeta TensorMeta::Of(PyObject* tensor) {
  const at::TensorImpl* impl = Impl(tensor);
  TensorMeta meta;
  meta.key_set = impl->key_set().raw_repr();
  meta.dtype = static_cast<int8_t>(c10::typeMetaToScalarType(impl->dtype()));
  const c10::Device device = impl->device();
  meta.device_type = static_cast<int8_t>(device.type());
  meta.device_index = device.index();
  meta.requires_grad = impl->requires_grad();
  if (HasSizes(*impl)) {
    meta.sizes.assign(impl->sizes().begin(), impl->sizes().end());
  }
  if (HasStrides(*impl)) {
    meta.strides.assign(impl->strides().begin(), impl->strides().end());
  }
  return meta;
}

bool TensorMeta::HasAllOf(PyObject* tensor) { return HasSizes(*Impl(tensor)); }

bool TensorMeta::has_lazy_bits() const {
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, key_set);
  return keys.has_any(c10::DispatchKeySet(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}));
}

// All but sizes and strides.
static bool MatchesKind(const TensorMeta& meta, const c10::TensorImpl& tensor) {
  if (tensor.key_set().raw_repr() != meta.key_set) return false;
  if (c10::typeMetaToScalarType(tensor.dtype()) !=
      static_cast<c10::ScalarType>(meta.dtype)) {
    return false;
  }
  const c10::Device device(static_cast<c10::DeviceType>(meta.device_type),
                           meta.device_index);
  return tensor.device() == device &&
         tensor.requires_grad() == meta.requires_grad && HasSizes(tensor);
}

MICA_HIT_CODE bool TensorMeta::Matches(PyObject* tensor) const {
  return Matches(*Impl(tensor));
}

bool TensorMeta::MatchesButSizes(PyObject* tensor) const {
  const c10::TensorImpl& impl = *Impl(tensor);
  return MatchesKind(*this, impl) && HasStrides(impl) &&
         impl.sizes().size() == sizes.size() && strides.size() == sizes.size();
}

MICA_HIT_CODE bool TensorMeta::Matches(const c10::TensorImpl& tensor) const {
  const c10::TensorImpl* impl = &tensor;
  if (!MatchesKind(*this, *impl)) return false;
  const auto now_sizes = impl->sizes();
  const size_t rank = sizes.size();
  if (now_sizes.size() != rank) return false;
  if (!HasStrides(*impl)) {
    return now_sizes == c10::IntArrayRef(sizes.data(), rank);
  }
  const auto now_strides = impl->strides();
  for (size_t i = 0; i < rank; ++i) {
    if (now_sizes[i] != sizes[i] || now_strides[i] != strides[i]) return false;
  }
  return true;
}

std::string TensorMeta::ToString(absl::Span<const int> open) const {
  std::vector<std::string> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_open = absl::c_linear_search(open, static_cast<int>(i));
    dims.push_back(is_open ? "any" : absl::StrCat(sizes[i]));
  }
  std::string text =
      absl::StrCat(ScalarTypeName(static_cast<c10::ScalarType>(dtype)), "[",
                   absl::StrJoin(dims, ","), "]");
  int64_t expected = 1;
  bool row_major = true;
  for (size_t i = strides.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) row_major = false;
    expected *= sizes[i];
  }
  if (!row_major && open.empty()) {
    absl::StrAppend(&text, "{", absl::StrJoin(strides, ","), "}");
  }
  const c10::Device device(static_cast<c10::DeviceType>(device_type),
                           device_index);
  if (!device.is_cpu()) absl::StrAppend(&text, " on ", device.str());
  if (requires_grad) absl::StrAppend(&text, " requires_grad");
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, key_set);
  if (!keys.has_any(c10::autograd_dispatch_keyset)) {
    absl::StrAppend(&text, " inference");
  }
  if (keys.has(c10::DispatchKey::Conjugate)) absl::StrAppend(&text, " conj");
  if (keys.has(c10::DispatchKey::Negative)) absl::StrAppend(&text, " neg");
  return text;
}

std::optional<std::string> UnsupportedTensor(PyObject* tensor) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  if (!value.defined()) return "undefined";
  return UnsupportedTensorImpl(*value.unsafeGetTensorImpl());
}

int8_t TorchDtype(absl::string_view name) {
  for (int type = 0; type < static_cast<int>(c10::ScalarType::NumOptions);
       ++type) {
    if (name == ScalarTypeName(static_cast<c10::ScalarType>(type))) {
      return static_cast<int8_t>(type);
    }
  }
  return -1;
}

PyObject* NewTensor(const TensorMeta& like, void** data) {
  return OrPythonError([&]() -> PyObject* {
    const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, like.key_set);
    std::optional<c10::InferenceMode> inference;
    if (!keys.has_any(c10::autograd_dispatch_keyset) &&
        !c10::InferenceMode::is_enabled()) {
      inference.emplace(true);
    }
    at::TensorBase tensor = at::detail::empty_strided_generic(
        c10::IntArrayRef(like.sizes.data(), like.sizes.size()),
        c10::IntArrayRef(like.strides.data(), like.strides.size()),
        ResultMemory(), c10::DispatchKeySet(c10::DispatchKey::CPU),
        static_cast<c10::ScalarType>(like.dtype));
    *data = tensor.unsafeGetTensorImpl()
                ->unsafe_storage()
                .unsafeGetStorageImpl()
                ->mutable_data();
    return THPVariable_Wrap(std::move(tensor));
  });
}

PyObject* NewView(PyObject* base, const TensorMeta& like, int64_t offset) {
  return OrPythonError(
      [&] { return NewAlias(THPVariable_Unpack(base), like, offset); });
}

PyRef DataTensorOf(PyObject* tensor) {
  return PyRef::Steal(
      THPVariable_Wrap(THPVariable_Unpack(tensor).variable_data()));
}

void SetData(PyObject* tensor, PyObject* data) {
  THPVariable_Unpack(tensor).set_data(THPVariable_Unpack(data));
}

void BumpVersion(PyObject* tensor, int64_t count) {
  at::TensorImpl* impl = Impl(tensor);
  if (!impl->version_counter().enabled()) return;
  for (int64_t i = 0; i < count; ++i) impl->bump_version();
}

struct RandomState::Saved {
  at::Tensor state;
};

RandomState::RandomState() : saved_(std::make_unique<Saved>()) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  saved_->state = generator.get_state();
}

RandomState::~RandomState() = default;

void RandomState::Restore() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(saved_->state);
}

}  // namespace mica
