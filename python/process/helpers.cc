#include "python/process/helpers.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "executor/job/fork.h"
#include "executor/watch/poison.h"
#include "executor/watch/stall_watch.h"
#include "framework/base/environment.h"
#include "python/process/signals.h"

namespace mica {
namespace {

int Spins() {
  return EnvironmentVariable("MICA_SPIN") == "0" ? 0 : kDefaultSpins;
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
  JobOptions options{.interrupt = SignalInterrupt()};
  if (plan.queue().num_workers > 1) {
    options.helpers = SharedHelpers(plan.queue().num_workers);
  }
  if (EnvironmentVariable("MICA_POISON") == "1") {
    options.observers.push_back(std::make_shared<Poison>(plan));
  }
  double seconds = 0;
  if (absl::SimpleAtod(EnvironmentVariable("MICA_HANG_REPORT"), &seconds) &&
      seconds > 0) {
    options.observers.push_back(std::make_shared<StallWatch>(
        plan, StallWatchOptions{.patience = absl::Seconds(seconds)}));
  }
  return options;
}

}  // namespace mica
