#include "kernels/cuda/code.h"

#include <algorithm>
#include <semaphore>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "kernels/cuda/cuda_device.h"

namespace mica::cuda {
namespace {

// As many compile at once as there are cores.
absl::StatusOr<std::string> CompileInTurn(const Target& target,
                                          const std::string& source) {
  static std::counting_semaphore<> turns(
      std::max(1u, std::thread::hardware_concurrency()));
  turns.acquire();
  absl::StatusOr<std::string> made = target.compile(source, target.arch);
  turns.release();
  return made;
}

}  // namespace

Code::Code(const Target& target, std::string source)
    : source_(std::move(source)),
      machine_code_(std::async(std::launch::async, [target, this] {
        return CompileInTurn(target, source_);
      })) {}

std::shared_ptr<const Code> Code::Of(const Target& target, std::string source) {
  static Mutex mutex;
  static auto& all =
      *new absl::flat_hash_map<std::string, std::weak_ptr<const Code>>;
  std::string key = absl::StrCat(target.arch, "\n", source);
  const MutexLock lock(&mutex);
  std::weak_ptr<const Code>& known = all[std::move(key)];
  std::shared_ptr<const Code> code = known.lock();
  if (code == nullptr) {
    code = std::make_shared<const Code>(target, std::move(source));
    known = code;
  }
  return code;
}

absl::StatusOr<Function> Code::On(const CudaDevice& device) const {
  auto& function = functions_[device.place().index];
  if (Function known = function.load(std::memory_order_acquire)) return known;
  const absl::StatusOr<std::string>& machine_code = machine_code_.get();
  MICA_RETURN_IF_ERROR(machine_code.status());
  const MutexLock lock(&mutex_);
  if (Function known = function.load(std::memory_order_acquire)) return known;
  MICA_ASSIGN_OR_RETURN(Function loaded,
                        device.Load(machine_code->c_str(), kEntry));
  function.store(loaded, std::memory_order_release);
  return loaded;
}

}  // namespace mica::cuda
