#include "python/torch_side/tensors/tensor_life.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace mica {
namespace {

class CountedLife;

// Those of all tensors that have one, by counter.
absl::flat_hash_map<const void*, std::weak_ptr<const CountedLife>>&
LivesByCounter() {
  static auto& lives =
      *new absl::flat_hash_map<const void*, std::weak_ptr<const CountedLife>>;
  return lives;
}

const c10::VariableVersion& WritesOf(PyObject* tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl()->version_counter();
}

// A counter's address, which is all that there is in a VariableVersion.
const void* CounterOf(const c10::VariableVersion& version) {
  static_assert(sizeof(version) == sizeof(const void*));
  const void* counter = nullptr;
  std::memcpy(&counter, &version, sizeof(counter));
  return counter;
}

class CountedLife : public TensorLife {
 public:
  explicit CountedLife(c10::VariableVersion version)
      : version_(std::move(version)) {}
  ~CountedLife() override { LivesByCounter().erase(CounterOf(version_)); }
  CountedLife(const CountedLife&) = delete;
  CountedLife& operator=(const CountedLife&) = delete;

  bool IsOf(PyObject* tensor) const override {
    return CounterOf(WritesOf(tensor)) == CounterOf(version_);
  }
  bool is_over() const override { return version_.unique(); }

 private:
  c10::VariableVersion version_;
};

const c10::Storage& StorageIn(PyObject* tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl()->unsafe_storage();
}

class NamedMemory : public MemoryLife {
 public:
  explicit NamedMemory(const c10::Storage& storage)
      : storage_(storage.getWeakStorageImpl()),
        address_(storage.unsafeGetStorageImpl()) {}

  bool IsOf(PyObject* tensor) const override {
    return StorageIn(tensor).unsafeGetStorageImpl() == address_;
  }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;  // Its address is taken.
  const c10::StorageImpl* address_;
};

}  // namespace

std::shared_ptr<const MemoryLife> MemoryLife::Of(PyObject* tensor) {
  return std::make_shared<const NamedMemory>(StorageIn(tensor));
}

std::shared_ptr<const TensorLife> TensorLife::Of(PyObject* tensor) {
  const c10::VariableVersion& version = WritesOf(tensor);
  if (!version.enabled()) return nullptr;
  std::weak_ptr<const CountedLife>& known =
      LivesByCounter()[CounterOf(version)];
  if (const auto life = known.lock()) return life;
  const auto life = std::make_shared<const CountedLife>(version);
  known = life;
  return life;
}

}  // namespace mica
