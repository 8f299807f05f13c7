// Which kernels could run an op, best first.

#ifndef MICA_FRAMEWORK_KERNEL_KERNEL_REGISTRY_H_
#define MICA_FRAMEWORK_KERNEL_KERNEL_REGISTRY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/dtype.h"

namespace mica {

// Names what could run an op. Look-up is by exact match and yields candidates
// in order of preference, so a missing kernel is found by analysis, not a run.
struct KernelKey {
  std::string op;                // As registered, for example "aten.mm".
  DType dtype = DType::kF32;     // Of the first operand, else of result 0.
  std::string ToString() const;  // "aten.mm f32"
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const KernelKey& key) {
    return H::combine(std::move(h), key.op, key.dtype);
  }
};

// A way to run the ops of one KernelKey.
struct Kernel {
  std::string name;  // "onednn.matmul", "reference.mm": in dumps and traces.
  PrepareFn prepare;
};

// In the order in which kernels are asked. Where there is torch, ATen's kernel
// comes behind the fast ones: a plain one is correct and no oracle, but ATen's
// beats it, so it runs only where no torch is.
enum class KernelRank : uint8_t { kFast, kPlain, kReference };

// The kernels of one kind of device. Filled at start-up, read-only afterwards;
// then thread-safe.
class KernelRegistry {
 public:
  // Among kernels of one key and rank the one added first is asked first.
  void Add(const KernelKey& key, KernelRank rank, Kernel kernel);
  // The same kernel for several dtypes.
  void Add(absl::string_view op, absl::Span<const DType> dtypes,
           KernelRank rank, const Kernel& kernel);

  // Best first; empty if there are none.
  absl::Span<const Kernel> Find(const KernelKey& key) const;
  absl::Span<const Kernel> FindFast(const KernelKey& key) const;
  absl::Span<const Kernel> FindPlain(const KernelKey& key) const;
  // What a pass asks before it makes an op of others: whether a fast kernel
  // may take it.
  bool HasFast(absl::string_view op, DType dtype) const;
  // Only the oracle, null if there is none: for the conformance suite.
  const Kernel* FindReference(const KernelKey& key) const;
  // Sorted by text.
  std::vector<KernelKey> Keys() const;

 private:
  struct Candidates {
    std::vector<Kernel> kernels;
    int num_fast = 0;
    int num_plain = 0;
  };
  absl::flat_hash_map<KernelKey, Candidates> kernels_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_KERNEL_KERNEL_REGISTRY_H_
