// How an op runs: prepared once while planning, then launched.

#ifndef MICA_FRAMEWORK_KERNEL_KERNEL_H_
#define MICA_FRAMEWORK_KERNEL_KERNEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/ir/argument.h"
#include "framework/op/op_def.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// What a kernel is called that is ATen's.
inline constexpr absl::string_view kAtenKernel = "aten";

// Per-run facts and the place for an error that only data can cause.
struct LaunchContext {
  absl::Status status;
  // On a device: where the kernel queues its work, of the device's own type,
  // and what Device::Synchronize() tells of the launch if its data are bad.
  void* stream = nullptr;
  int32_t step = -1;

  // Keeps the error and returns false, for `return context.Fail(…)`.
  bool Fail(absl::Status error) {
    status = std::move(error);
    return false;
  }
};

// Runs a prepared kernel. `args` are the addresses of the operands in
// ForEachValue order, of the results, and of the scratch memory if any was
// asked for. A result that nobody reads has a null address. Returns false after
// context.Fail(). Never fails on types: Prepare has seen those.
using LaunchFn = bool (*)(const void* state, void* const* args,
                          LaunchContext& context);

// An operand or a result as Prepare sees it: its type has the strides that
// the bytes really have, views resolved.
struct Operand {
  TensorType type;
  bool is_used = true;     // Of a result: somebody reads it.
  bool is_frozen = false;  // Of an operand: a variable that never changes, so
                           // that the Binding may keep a packed copy.
};

// What a kernel is asked to run. Lives for the call to Prepare only.
struct KernelRequest {
  const OpDef* def = nullptr;
  const Arguments* arguments = nullptr;
  absl::InlinedVector<Operand, 4> operands;  // In ForEachValue order.
  absl::InlinedVector<Operand, 1> results;
  int num_threads = 1;

  // Index in `operands` of the value given for a parameter (the first of a
  // list), or -1 if there is none: the parameter is None or a constant.
  int OperandIndex(int param) const;
  // How many values a list parameter has; 0 or 1 for others.
  int NumValues(int param) const;
  // Constant arguments; see OpCall. `Has` is false for None.
  bool Has(int param) const;
  int64_t Int(int param) const;
  bool Bool(int param) const;
  double Number(int param) const;
  absl::Span<const int64_t> Ints(int param) const;
  DType GetDType(int param) const;
  const std::string& String(int param) const;
};

// A copy of a frozen operand in a form that the kernel likes better. Launch
// gets the packed copy's address in place of the operand's.
struct PackRequest {
  int operand = 0;
  int64_t bytes = 0;
  // All that the packed bytes follow from besides the operand's, as text: where
  // two requests for one operand have the same, one copy serves both. Empty:
  // nobody knows.
  std::string layout = {};
  // Reads the operand at `from`, writes `bytes` at `to`.
  std::function<absl::Status(const void* from, void* to)> pack;
};

// What one Job needs of a kernel for itself, such as library handles that keep
// addresses. Passed to Launch as its state.
class KernelInstance {
 public:
  virtual ~KernelInstance() = default;
};

// A kernel that is ready to launch. Immutable; Jobs share it.
struct Prepared {
  LaunchFn launch = nullptr;
  std::shared_ptr<const void> state;
  int64_t scratch_bytes = 0;
  // Bit i: result 0 may share the bytes of operand i, whose type is then of
  // the same element size, dims and strides, and which dies here. Operands
  // without the bit never share bytes with result 0.
  uint32_t inplace_operands = 0;
  // Bit i: where result 0 lies in another operand's bytes, parts of them may be
  // operand i. The kernel sees to it that it reads what was there before.
  uint32_t overlapping_operands = 0;
  // The same as inplace_operands for results 1, 2, …, where the kernel says so.
  absl::InlinedVector<uint32_t, 2> more_inplace;
  // The launch returns true whatever the data.
  bool never_fails = false;
  std::vector<PackRequest> packs;
  // If set, each Job makes its own instance and launches with it as state;
  // `state` must outlive the instances, and does: the Plan holds it.
  std::function<std::unique_ptr<KernelInstance>()> make_instance;
};

// Why a kernel doesn't take a request: "reduces over axis 1".
struct No {
  std::string reason;
};

// A kernel's answer: ready, or no and why.
using Verdict = std::variant<Prepared, No>;
using PrepareFn = std::function<Verdict(const KernelRequest&)>;

}  // namespace mica

#endif  // MICA_FRAMEWORK_KERNEL_KERNEL_H_
