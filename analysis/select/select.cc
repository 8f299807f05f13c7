#include "analysis/select/select.h"

#include <utility>
#include <variant>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mica {
namespace {

// Appends an argument's constant part; which values an op has is told by its
// operands.
struct AppendArgument {
  std::string* key;
  void operator()(std::monostate) const { key->append("n"); }
  void operator()(ValueRef) const { key->append("v"); }
  void operator()(const ValueRefs& refs) const {
    key->append("V");
    for (ValueRef ref : refs) key->append(ref.id == kNoValue ? "n" : "v");
  }
  void operator()(int64_t value) const { absl::StrAppend(key, "i", value); }
  void operator()(double value) const {
    absl::StrAppend(key, "d", absl::bit_cast<uint64_t>(value));
  }
  void operator()(bool value) const { key->append(value ? "T" : "F"); }
  void operator()(DType value) const {
    absl::StrAppend(key, "t", DTypeName(value));
  }
  void operator()(const std::string& value) const {
    absl::StrAppend(key, "s", value.size(), ":", value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    absl::StrAppend(key, "I", absl::StrJoin(values, ","));
  }
  void operator()(const std::vector<double>& values) const {
    key->append("D");
    for (double value : values) (*this)(value);
  }
  void operator()(const std::vector<bool>& values) const {
    key->append("B");
    for (bool value : values) (*this)(value);
  }
};

void AppendOperand(std::string* key, const Operand& operand) {
  absl::StrAppend(key, "|", operand.type.ToString(), operand.is_used ? "u" : "",
                  operand.is_frozen ? "f" : "");
}

std::string RequestKey(const KernelRequest& request) {
  std::string key = absl::StrCat(request.def->name(), "/", request.num_threads);
  for (const Argument& argument : *request.arguments) {
    key.push_back(';');
    std::visit(AppendArgument{&key}, argument);
  }
  for (const Operand& operand : request.operands) AppendOperand(&key, operand);
  key.append("->");
  for (const Operand& result : request.results) AppendOperand(&key, result);
  return key;
}

std::string DescribeOperands(const KernelRequest& request) {
  auto append = [](std::string* out, const Operand& operand) {
    absl::StrAppend(out, operand.type.ToString());
  };
  return absl::StrCat("(", absl::StrJoin(request.operands, ", ", append),
                      ") -> ", absl::StrJoin(request.results, ", ", append));
}

}  // namespace

absl::StatusOr<Selected> KernelSelector::Select(const KernelRequest& request) {
  std::string key = RequestKey(request);
  if (const auto it = selected_.find(key); it != selected_.end()) {
    return it->second;
  }
  absl::StatusOr<Selected> selected = SelectNew(request);
  if (selected.ok()) selected_.emplace(std::move(key), *selected);
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
  Selected selected;
  if (request.def->is_opaque()) {
    if (prepare_opaque_ == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "opaque operator ", request.def->name(), " runs under Python only"));
    }
    if (ask("aten", prepare_opaque_, selected)) return selected;
  }
  const DType dtype = request.operands.empty() ? request.results[0].type.dtype
                                               : request.operands[0].type.dtype;
  const KernelKey key{.op = request.def->name(), .dtype = dtype};
  for (const Kernel& kernel : kernels_.Find(key)) {
    if (!only_.empty() && !only_.contains(kernel.name)) continue;
    if (ask(kernel.name, kernel.prepare, selected)) return selected;
  }
  return absl::NotFoundError(absl::StrCat("no kernel fits ", key.ToString(),
                                          " ", DescribeOperands(request),
                                          reasons));
}

}  // namespace mica
