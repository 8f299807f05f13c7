#include "analysis/select/dense_operands.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "framework/ir/argument.h"
#include "framework/kernel/kernel_around.h"
#include "framework/tensor/tensor.h"

namespace mica {
namespace {

// An operand's copy, at `offset` of the scratch memory.
struct DenseCopy {
  int operand = 0;
  int64_t offset = 0;
  Prepared copy;
};

struct DenseState {
  Prepared inner;
  int num_args = 0;  // Operands and results; scratch memory comes behind them.
  std::vector<DenseCopy> copies;
};

bool LaunchWith(const DenseState& s, const void* inner, void* const* args,
                LaunchContext& context) {
  absl::InlinedVector<void*, 12> changed(args, args + s.num_args + 1);
  auto* scratch = static_cast<char*>(args[s.num_args]);
  for (const DenseCopy& copy : s.copies) {
    changed[copy.operand] = scratch + copy.offset;
    void* const one[] = {args[copy.operand], changed[copy.operand]};
    if (!copy.copy.launch(copy.copy.state.get(), one, context)) return false;
  }
  return s.inner.launch(inner, changed.data(), context);
}

// The kernel that copies `from` to `to`: it looks at nothing but types, and
// needs no more than their two addresses.
std::optional<Prepared> PrepareCopy(const TensorType& from,
                                    const TensorType& to, int num_threads,
                                    const KernelRegistry& kernels) {
  const Arguments arguments = {ValueRef{0}, std::monostate()};
  KernelRequest request{.arguments = &arguments,
                        .operands = {{.type = from}},
                        .results = {{.type = to}},
                        .num_threads = num_threads};
  const KernelKey key{.op = "aten.clone", .dtype = from.dtype};
  for (const Kernel& kernel : kernels.FindFast(key)) {
    Verdict verdict = kernel.prepare(request);
    auto* prepared = std::get_if<Prepared>(&verdict);
    if (prepared != nullptr && prepared->scratch_bytes == 0 &&
        prepared->make_instance == nullptr) {
      return std::move(*prepared);
    }
  }
  return std::nullopt;
}

// The kernel of a prepared inner one and its copies, of whose scratch memory
// the inner one has the front.
Prepared Wrap(std::shared_ptr<DenseState> state) {
  const Prepared& inner = state->inner;
  Prepared prepared{.inplace_operands = inner.inplace_operands,
                    .more_inplace = inner.more_inplace,
                    .packs = inner.packs};
  int64_t offset = AlignUp(inner.scratch_bytes);
  prepared.never_fails = inner.never_fails;
  for (DenseCopy& copy : state->copies) {
    const int64_t bytes = copy.offset;
    copy.offset = offset;
    offset += AlignUp(bytes);
    const uint32_t others =
        copy.operand < 32 ? ~(uint32_t{1} << copy.operand) : ~uint32_t{0};
    prepared.inplace_operands &= others;
    for (uint32_t& operands : prepared.more_inplace) operands &= others;
    prepared.never_fails = prepared.never_fails && copy.copy.never_fails;
  }
  prepared.scratch_bytes = offset;
  LaunchAround<LaunchWith, DenseState>(std::move(state), prepared);
  return prepared;
}

}  // namespace

bool IsExpanded(const TensorType& type) {
  if (type.strides.empty()) return false;
  for (int i = 0; i < type.rank(); ++i) {
    if (type.strides[i] == 0 && type.dims[i] > 1) return true;
  }
  return false;
}

Verdict PrepareOnDense(const KernelRequest& request, const PrepareFn& prepare,
                       const std::function<bool(const TensorType&)>& is_copied,
                       const KernelRegistry& kernels) {
  KernelRequest dense = request;
  auto state = std::make_shared<DenseState>();
  for (size_t i = 0; i < request.operands.size(); ++i) {
    const TensorType& type = request.operands[i].type;
    if (type.is_scalar || type.num_elements() == 0 || !is_copied(type)) {
      continue;
    }
    Operand& operand = dense.operands[i];
    operand.is_frozen = false;
    operand.type.strides.clear();
    auto copy = PrepareCopy(type, operand.type, request.num_threads, kernels);
    if (!copy.has_value()) return No{"no copy of an operand"};
    // Until Wrap() has the offsets, the bytes stand in their place.
    state->copies.push_back({.operand = static_cast<int>(i),
                             .offset = operand.type.num_bytes(),
                             .copy = *std::move(copy)});
  }
  if (state->copies.empty()) return No{"no operand to copy"};
  Verdict verdict = prepare(dense);
  auto* inner = std::get_if<Prepared>(&verdict);
  if (inner == nullptr) return verdict;
  state->inner = std::move(*inner);
  state->num_args =
      static_cast<int>(request.operands.size() + request.results.size());
  return Wrap(std::move(state));
}

}  // namespace mica
