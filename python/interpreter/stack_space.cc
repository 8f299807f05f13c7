#include "python/interpreter/stack_space.h"

#include <pthread.h>

#include <cstddef>

namespace mica {
namespace {

// The address under which a quarter is left; null if nobody knows.
const char* FindMark() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return nullptr;
  void* lowest = nullptr;
  size_t bytes = 0;
  const bool is_known =
      pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  return is_known ? static_cast<const char*>(lowest) + bytes / 4 : nullptr;
}

}  // namespace

bool IsStackLow() {
  static thread_local const char* const mark = FindMark();
  const char here = 0;
  return &here < mark;
}

}  // namespace mica
