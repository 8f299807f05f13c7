// Tensor types by content.

#ifndef MICA_FRAMEWORK_TENSOR_TYPE_TABLE_H_
#define MICA_FRAMEWORK_TENSOR_TYPE_TABLE_H_

#include <utility>

#include "absl/container/node_hash_set.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// Keeps each type once. A Program has many values of few types: what reads all
// of its values finds these in the caches.
class TypeTable {
 public:
  // The table's own copy, for as long as the table lives; one for all types
  // that have the same form, spelled-out strides included.
  const TensorType* Intern(TensorType type) {
    return &*types_.insert(std::move(type)).first;
  }

 private:
  // By form: equal types may spell their strides differently.
  struct Hash {
    size_t operator()(const TensorType& type) const {
      return absl::HashOf(type.dtype, type.dims, type.strides, type.is_scalar);
    }
  };
  struct Same {
    bool operator()(const TensorType& a, const TensorType& b) const {
      return a.dtype == b.dtype && a.is_scalar == b.is_scalar &&
             a.dims == b.dims && a.strides == b.strides;
    }
  };

  absl::node_hash_set<TensorType, Hash, Same> types_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_TYPE_TABLE_H_
