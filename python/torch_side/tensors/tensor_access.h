// What capture needs of torch's tensors, without torch's headers.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_TENSOR_ACCESS_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_TENSOR_ACCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace c10 {
struct TensorImpl;
}

namespace mica {

// True for torch.Tensor, torch.nn.Parameter and every subclass.
bool IsTensor(PyObject* object);
bool IsTensorType(PyTypeObject* type);
// True for exactly torch.Tensor and torch.nn.Parameter.
bool IsPlainTensor(PyObject* object);
// True if `tensor` has attributes of its own, set from Python; what
// torch.compile notes on the tensors that it sees doesn't count.
bool HasOwnAttributes(PyObject* tensor);

// The C++ tensor under a Python tensor, as an address: equal for two Python
// objects only if they are one.
const void* TensorImplOf(PyObject* tensor);
// Equal for tensors that share memory; null if there is no memory.
const void* StorageOf(PyObject* tensor);
void* DataOf(PyObject* tensor);
// Keeps a tensor's memory, whatever becomes of the tensor.
std::shared_ptr<void> HoldMemory(PyObject* tensor);
int64_t StorageOffsetOf(PyObject* tensor);  // In elements.
// Counts in-place writes; -1 for inference tensors, which have no counter.
int64_t VersionOf(PyObject* tensor);
// Of an inference tensor that has a counter all the same, as detach() of one
// gives outside of inference mode: who writes it doesn't raise.
bool IsCountedInference(PyObject* tensor);
bool RequiresGrad(PyObject* tensor);
bool RetainsGrad(PyObject* tensor);
int64_t NumElements(PyObject* tensor);
int64_t ItemBytes(PyObject* tensor);  // Of one element.
// The elements in row-major order, read without the dispatcher; none of a
// tensor that has no memory of its own, as below a transform.
std::string ElementBytes(PyObject* tensor);

// True for torch.dtype, device, layout and memory_format.
bool IsTorchConstant(PyObject* object);
// Requires: IsTorchConstant() of both, and one type.
bool SameTorchConstant(PyObject* a, PyObject* b);

// A tensor's metadata as a guard wants it. Values don't take part.
struct TensorMeta {
  uint64_t key_set = 0;  // Backend, layout, conjugation, inference, subclass.
  int8_t dtype = 0;
  int8_t device_type = 0;
  int8_t device_index = 0;
  bool requires_grad = false;
  absl::InlinedVector<int64_t, 4> sizes;
  absl::InlinedVector<int64_t, 4> strides;  // None of a sparse tensor's.

  static TensorMeta Of(PyObject* tensor);
  // False for a nested tensor, or one of symbolic size, which match none.
  static bool HasAllOf(PyObject* tensor);
  // True if it is lazily conjugated or negated.
  bool has_lazy_bits() const;
  // Where all this lies in a tensor: of each, 8 bytes that differ if it does,
  // and perhaps if it doesn't. What a place leads to comes behind it. Empty if
  // this isn't known of such a tensor.
  static std::vector<const void*> Places(PyObject* tensor);
  // Requires: `tensor` is a tensor.
  bool Matches(PyObject* tensor) const;
  bool Matches(const c10::TensorImpl& tensor) const;
  // The same but for the sizes themselves, and the strides.
  bool MatchesButSizes(PyObject* tensor) const;
  // "f32[8,64]", with what differs from the plain case: strides, device, grad.
  std::string ToString() const { return ToString({}); }
  // The same; `open` are dims of any size, and so of any stride.
  std::string ToString(absl::Span<const int> open) const;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

// Why a tensor of this kind can't be captured ("sparse"), or nothing.
std::optional<std::string> UnsupportedTensor(PyObject* tensor);

// torch's number for the dtype called "f32"; -1 for one it doesn't have.
int8_t TorchDtype(absl::string_view name);

// A new CPU tensor with undefined contents and without lazy bits, ready to be
// filled at `*data`. Null with MemoryError set when there is no memory.
PyObject* NewTensor(const TensorMeta& like, void** data);
// `base` seen with other metadata, lazy bits included, `offset` elements from
// `base`'s own start, real ones where one of the two is complex; not tracked by
// autograd, but writes to one count as such to the other.
// Null with a Python error set on failure.
PyObject* NewView(PyObject* base, const TensorMeta& like, int64_t offset);
// A new tensor that has the memory of `tensor`, of which autograd knows
// nothing, as `tensor.data` gives it. Null with a Python error set on failure.
PyRef DataTensorOf(PyObject* tensor);
// A new tensor in the memory of an array of exactly numpy's class, as
// torch.from_numpy() gives it; null if there is none (of objects, read-only,
// with steps backward). Nothing is raised.
PyRef TensorOfArray(PyObject* object);
// `tensor.data = data`. Throws what torch throws.
void SetData(PyObject* tensor, PyObject* data);
// Tells autograd that `tensor` was written in place so many times.
void BumpVersion(PyObject* tensor, int64_t count);

// The state of torch's generator for the CPU, to go back to.
class RandomState {
 public:
  RandomState();
  ~RandomState();
  RandomState(const RandomState&) = delete;
  RandomState& operator=(const RandomState&) = delete;
  // As when this was made.
  void Restore();

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_TENSOR_ACCESS_H_
