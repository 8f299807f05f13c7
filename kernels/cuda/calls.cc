#include "kernels/cuda/calls.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "kernels/cuda/cuda_device.h"

namespace mica::cuda {
namespace {

constexpr size_t kMostParams = 64;

class Calls {
 public:
  explicit Calls(std::vector<Call> calls) : calls_(std::move(calls)) {}

  static bool Launch(const void* state, void* const* args,
                     LaunchContext& context) {
    const auto& calls = *static_cast<const Calls*>(state);
    auto& stream = *static_cast<CudaStream*>(context.stream);
    for (size_t i = 0; i < calls.calls_.size(); ++i) {
      absl::Status status = std::visit(
          [&](const auto& call) {
            return calls.Run(call, i, args, stream, context.step);
          },
          calls.calls_[i]);
      if (!status.ok()) return context.Fail(std::move(status));
    }
    return true;
  }

 private:
  static char* At(const Ref& ref, void* const* args) {
    if (ref.arg < 0 || args[ref.arg] == nullptr) return nullptr;
    return static_cast<char*>(args[ref.arg]) + ref.offset;
  }

  absl::Status Run(const CodeCall& call, size_t, void* const* args,
                   CudaStream& stream, int32_t step) const {
    MICA_ASSIGN_OR_RETURN(const Function function,
                          call.code->On(*stream.device));
    void* addresses[kMostParams];
    void* params[kMostParams + 2];
    const size_t count = call.params.size();
    for (size_t i = 0; i < count; ++i) {
      addresses[i] = At(call.params[i], args);
      params[i] = &addresses[i];
    }
    Address error_word = stream.device->error_word();
    if (call.tells_errors) {
      params[count] = &error_word;
      params[count + 1] = &step;
    }
    const Driver& driver = stream.device->driver();
    return ToStatus(
        driver,
        driver.LaunchKernel(function, call.blocks[0], call.blocks[1],
                            call.blocks[2], call.threads[0], call.threads[1], 1,
                            0, stream.handle, params, nullptr),
        "a kernel to run");
  }

  absl::Status Run(const ProductCall& call, size_t index, void* const* args,
                   CudaStream& stream, int32_t) const {
    MICA_ASSIGN_OR_RETURN(const Blas* blas, stream.device->PrepareBlas(stream));
    const BlasArgs at = {.a = At(call.a, args),
                         .b = At(call.b, args),
                         .c = At(call.c, args),
                         .bias = At(call.bias, args),
                         .out = At(call.out, args)};
    MICA_ASSIGN_OR_RETURN(const BlasPlan* plan,
                          PlanOf(call, {blas, index, AlignmentOf(at)}));
    return plan->Run(at, stream.workspace, stream.handle);
  }

  absl::Status Run(const ClearCall& call, size_t, void* const* args,
                   CudaStream& stream, int32_t) const {
    char* at = At(call.at, args);
    if (at == nullptr || call.bytes == 0) return absl::OkStatus();
    const Driver& driver = stream.device->driver();
    return ToStatus(
        driver,
        driver.MemsetD8Async(reinterpret_cast<Address>(at), 0,
                             static_cast<size_t>(call.bytes), stream.handle),
        "memory to be cleared");
  }

  // What a way to compute a product is chosen for, at its first run: a device,
  // the call, and how its addresses are aligned.
  using PlanKey = std::tuple<const Blas*, size_t, int64_t>;

  absl::StatusOr<const BlasPlan*> PlanOf(const ProductCall& call,
                                         const PlanKey& key) const {
    const MutexLock lock(&mutex_);
    std::unique_ptr<const BlasPlan>& plan = plans_[key];
    if (plan == nullptr) {
      BlasProduct product = call.product;
      product.alignment = std::get<2>(key);
      MICA_ASSIGN_OR_RETURN(plan, std::get<0>(key)->Plan(product));
    }
    return plan.get();
  }
  static int64_t AlignmentOf(const BlasArgs& args) {
    uint64_t bits = 256;
    for (const void* at : {args.a, args.b, args.c, args.bias,
                           static_cast<const void*>(args.out)}) {
      bits |= reinterpret_cast<uintptr_t>(at);
    }
    return static_cast<int64_t>(bits & -bits);
  }

  const std::vector<Call> calls_;
  mutable Mutex mutex_;
  mutable std::map<PlanKey, std::unique_ptr<const BlasPlan>> plans_
      ABSL_GUARDED_BY(mutex_);
};

bool TellsErrors(const Call& call) {
  const auto* code = std::get_if<CodeCall>(&call);
  return code != nullptr && code->tells_errors;
}

}  // namespace

Prepared PrepareCalls(std::vector<Call> calls, int64_t scratch_bytes) {
  Prepared prepared{.launch = Calls::Launch,
                    .scratch_bytes = scratch_bytes,
                    .never_fails = absl::c_none_of(calls, TellsErrors)};
  prepared.state = std::make_shared<const Calls>(std::move(calls));
  return prepared;
}

}  // namespace mica::cuda
