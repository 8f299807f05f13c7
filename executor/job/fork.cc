#include "executor/job/fork.h"

#include <pthread.h>

#include <atomic>

#include "glog/logging.h"

namespace mica {
namespace {

std::atomic<int32_t> generation = 0;

bool CountForks() {
  const int error = pthread_atfork(nullptr, nullptr, [] {
    generation.fetch_add(1, std::memory_order_relaxed);
  });
  CHECK_EQ(error, 0);
  return true;
}

}  // namespace

int32_t ForkGeneration() {
  static const bool is_counting = CountForks();
  (void)is_counting;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace mica
