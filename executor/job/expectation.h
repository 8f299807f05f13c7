// A run that ends as soon as a result is another than it is expected to be.

#ifndef MICA_EXECUTOR_JOB_EXPECTATION_H_
#define MICA_EXECUTOR_JOB_EXPECTATION_H_

#include <atomic>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/kernel/kernel.h"

namespace mica {

// Stands in for the launch of the step that writes an output.
struct Expectation {
  LaunchFn fn = nullptr;  // The step's own.
  const void* state = nullptr;
  int result = 0;  // Of its arguments, the output's address.
  int output = 0;
  std::string bytes;
  std::atomic<int>* unexpected = nullptr;  // Set to the output.

  // A LaunchFn; `expectation` is one of these.
  static bool Launch(const void* expectation, void* const* args,
                     LaunchContext& context) {
    const auto& own = *static_cast<const Expectation*>(expectation);
    if (!own.fn(own.state, args, context)) return false;
    if (std::memcmp(args[own.result], own.bytes.data(), own.bytes.size()) ==
        0) {
      return true;
    }
    own.unexpected->store(own.output, std::memory_order_relaxed);
    return context.Fail(absl::AbortedError(
        absl::StrCat("output ", own.output, " isn't what it is to be")));
  }
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_EXPECTATION_H_
