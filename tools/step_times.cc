#include "tools/step_times.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/status.h"

namespace mica {

absl::StatusOr<std::vector<KernelTime>> TimeKernels(const Job& job) {
  constexpr int kRepeats = 20;
  const Plan& plan = job.plan();
  if (job.device_run() == nullptr) {
    return absl::InvalidArgumentError(
        "wants a Job on a device, got the host's");
  }
  Device& device = job.device_run()->device();
  const StreamId stream = job.device_run()->stream();
  std::map<std::string, KernelTime> by_kernel;
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    const auto id = static_cast<StepId>(i);
    MICA_RETURN_IF_ERROR(device.Launch(job.LaunchOf(id), stream));
    MICA_RETURN_IF_ERROR(device.Synchronize(stream).status);
    const absl::Time start = absl::Now();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      MICA_RETURN_IF_ERROR(device.Launch(job.LaunchOf(id), stream));
    }
    MICA_RETURN_IF_ERROR(device.Synchronize(stream).status);
    const Step& step = plan.steps()[i];
    KernelTime& time = by_kernel[std::string(step.kernel)];
    time.kernel = std::string(step.kernel);
    ++time.steps;
    time.us += absl::ToDoubleMicroseconds(absl::Now() - start) / kRepeats;
  }
  std::vector<KernelTime> times;
  for (auto& [kernel, time] : by_kernel) times.push_back(std::move(time));
  std::sort(
      times.begin(), times.end(),
      [](const KernelTime& a, const KernelTime& b) { return a.us > b.us; });
  return times;
}

}  // namespace mica
