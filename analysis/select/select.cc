#include "analysis/select/select.h"

#include <complex>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/select/dense_operands.h"

namespace mica {
namespace {

// Writes down what Prepare() may look at, as bytes: fields of a fixed size, or
// behind their length, so that no two requests run into the same ones.
class RequestWriter {
 public:
  // Writes to `key`, which keeps its room from one request to the next.
  explicit RequestWriter(std::string& key) : key_(key) { key_.clear(); }

  void Write(const KernelRequest& request) {
    Put(request.def);
    Put(request.num_threads);
    for (const Argument& argument : *request.arguments) {
      Put(static_cast<uint8_t>(argument.index()));
      std::visit(*this, argument);
    }
    Put(request.operands.size());
    for (const Operand& operand : request.operands) PutOperand(operand);
    for (const Operand& result : request.results) PutOperand(result);
  }

  // An argument's constant part; which values an op has is told by its
  // operands.
  void operator()(std::monostate) const {}
  void operator()(ValueRef) const {}
  void operator()(const ValueRefs& refs) const {
    Put(refs.size());
    for (ValueRef ref : refs) Put(ref.id == kNoValue);
  }
  void operator()(int64_t value) const { Put(value); }
  void operator()(double value) const { Put(value); }
  void operator()(std::complex<double> value) const {
    Put(value.real());
    Put(value.imag());
  }
  void operator()(bool value) const { Put(value); }
  void operator()(DType value) const { Put(value); }
  void operator()(const std::string& value) const {
    Put(value.size());
    key_.append(value);
  }
  void operator()(const std::vector<int64_t>& values) const { PutAll(values); }
  void operator()(const std::vector<double>& values) const { PutAll(values); }
  void operator()(const std::vector<bool>& values) const { PutAll(values); }

 private:
  template <typename T>
  void Put(const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    key_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename List>
  void PutAll(const List& values) const {
    Put(values.size());
    for (const auto value : values) Put(value);
  }
  void PutOperand(const Operand& operand) const {
    const TensorType& type = operand.type;
    const uint8_t flags = (operand.is_used ? 1 : 0) |
                          (operand.is_frozen ? 2 : 0) |
                          (type.is_scalar ? 4 : 0);
    Put(flags);
    Put(type.dtype);
    PutAll(type.dims);
    PutAll(type.strides);
  }

  std::string& key_;
};

std::string DescribeOperands(const KernelRequest& request) {
  auto append = [](std::string* out, const Operand& operand) {
    absl::StrAppend(out, operand.type.ToString());
  };
  return absl::StrCat("(", absl::StrJoin(request.operands, ", ", append),
                      ") -> ", absl::StrJoin(request.results, ", ", append));
}

}  // namespace

absl::StatusOr<Selected> KernelSelector::Select(const KernelRequest& request) {
  RequestWriter(key_).Write(request);
  if (const auto it = selected_.find(key_); it != selected_.end()) {
    return it->second;
  }
  absl::StatusOr<Selected> selected = SelectNew(request);
  if (selected.ok()) selected_.emplace(key_, *selected);
  return selected;
}

absl::StatusOr<Selected> KernelSelector::SelectNew(
    const KernelRequest& request) {
  std::string reasons;
  auto ask = [&](absl::string_view name, const PrepareFn& prepare,
                 Selected& selected) {
    Verdict verdict = prepare(request);
    if (auto* prepared = std::get_if<Prepared>(&verdict)) {
      selected = {
          .kernel = std::string(name),
          .prepared = std::make_shared<const Prepared>(std::move(*prepared))};
      return true;
    }
    absl::StrAppend(&reasons, "; ", name, ": ", std::get<No>(verdict).reason);
    return false;
  };
  const auto may_ask = [&](absl::string_view name) {
    return only_.empty() || only_.contains(name);
  };
  Selected selected;
  if (request.def->is_opaque()) {
    if (prepare_aten_ == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "opaque operator ", request.def->name(), " runs under Python only"));
    }
    if (ask(kAtenKernel, prepare_aten_, selected)) return selected;
    return absl::NotFoundError(
        absl::StrCat("no kernel fits ", DescribeOperands(request), reasons));
  }
  const DType dtype = request.operands.empty() ? request.results[0].type.dtype
                                               : request.operands[0].type.dtype;
  const KernelKey key{.op = request.def->name(), .dtype = dtype};
  const auto ask_on_dense = [&](auto is_copied) {
    for (const Kernel& kernel : kernels_.FindFast(key)) {
      if (!may_ask(kernel.name)) continue;
      const auto prepare = [&](const KernelRequest& wanted) {
        return PrepareOnDense(wanted, kernel.prepare, is_copied, kernels_);
      };
      if (ask(kernel.name, prepare, selected)) return true;
    }
    return false;
  };
  for (const Kernel& kernel : kernels_.FindFast(key)) {
    if (!may_ask(kernel.name)) continue;
    if (ask(kernel.name, kernel.prepare, selected)) return selected;
  }
  // ATen's kernels copy these, too.
  if (ask_on_dense(IsExpanded)) return selected;
  if (prepare_aten_ != nullptr && may_ask(kAtenKernel)) {
    if (ask(kAtenKernel, prepare_aten_, selected)) return selected;
  }
  for (const Kernel& kernel : kernels_.FindPlain(key)) {
    if (!may_ask(kernel.name)) continue;
    if (ask(kernel.name, kernel.prepare, selected)) return selected;
  }
  const auto has_gaps = [](const TensorType& type) {
    return !type.is_row_major();
  };
  if (ask_on_dense(has_gaps)) return selected;
  const Kernel* reference = kernels_.FindReference(key);
  if (reference != nullptr && may_ask(reference->name)) {
    if (ask(reference->name, reference->prepare, selected)) return selected;
  }
  return absl::NotFoundError(absl::StrCat("no kernel fits ", key.ToString(),
                                          " ", DescribeOperands(request),
                                          reasons));
}

}  // namespace mica
