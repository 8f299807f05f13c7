#include "python/bridge/helpers.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/string_view.h"
#include "executor/job/fork.h"

namespace mica {
namespace {

int Spins() {
  const char* text = std::getenv("MICA_SPIN");
  return text != nullptr && absl::string_view(text) == "0" ? 0 : kDefaultSpins;
}

}  // namespace

std::shared_ptr<Helpers> SharedHelpers(int num_threads) {
  static std::mutex& mutex = *new std::mutex;
  // By number of threads and generation of forks. Never destroyed: threads
  // can't be waited for while a process ends.
  static auto& all =
      *new std::map<std::pair<int, int32_t>, std::shared_ptr<Helpers>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Helpers>& helpers = all[{num_threads, ForkGeneration()}];
  if (helpers == nullptr) {
    helpers = std::make_shared<Helpers>(num_threads - 1, Spins());
  }
  return helpers;
}

JobOptions MakeJobOptions(const Plan& plan) {
  if (plan.queue().num_workers == 1) return {};
  return {.helpers = SharedHelpers(plan.queue().num_workers)};
}

}  // namespace mica
