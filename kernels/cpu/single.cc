// What takes no time: memory that nobody has to write, and single elements.

#include <cstring>
#include <memory>

#include "kernels/cpu/families.h"

namespace mica::cpu {
namespace {

constexpr DType kAll[] = {DType::kBool, DType::kU8,  DType::kI8,  DType::kI16,
                          DType::kI32,  DType::kI64, DType::kF16, DType::kBF16,
                          DType::kF32,  DType::kF64, DType::kC64, DType::kC128};

// Any contents are right.
Verdict PrepareUninitialised(const KernelRequest&) {
  return Prepared{
      .launch = [](const void*, void* const*, LaunchContext&) { return true; },
      .never_fails = true};
}

bool LaunchElement(const void* bytes, void* const* args, LaunchContext&) {
  if (args[1] == nullptr) return true;
  std::memcpy(args[1], args[0], *static_cast<const int64_t*>(bytes));
  return true;
}

Verdict PrepareElement(const KernelRequest& request) {
  const TensorType& from = request.operands[0].type;
  if (from.dtype != request.results[0].type.dtype) return No{"converts"};
  return Prepared{
      .launch = LaunchElement,
      .state = std::make_shared<const int64_t>(ElementBytes(from.dtype)),
      .never_fails = true};
}

}  // namespace

void RegisterSingle(KernelRegistry& registry) {
  for (absl::string_view op :
       {"aten.empty.memory_format", "aten.empty_like", "aten.new_empty",
        "aten.empty_strided", "aten.new_empty_strided"}) {
    registry.Add(op, kAll, KernelRank::kFast,
                 {"cpu.uninitialised", PrepareUninitialised});
  }
  registry.Add("aten._local_scalar_dense", kAll, KernelRank::kFast,
               {"cpu.element", PrepareElement});
}

}  // namespace mica::cpu
