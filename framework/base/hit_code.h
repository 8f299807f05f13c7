// The code that finds out whether a record fits a call, in one place.

#ifndef MICA_FRAMEWORK_BASE_HIT_CODE_H_
#define MICA_FRAMEWORK_BASE_HIT_CODE_H_

#include "framework/base/prefetch.h"

// Before the definition of a function that each hit calls, and that is no
// template and not inline: it lies with all others that have this, on a few
// pages. Code is out of the caches after a model's run, as data are. Where it
// lies all over a library, each function of it takes a trip to memory and one
// through the page tables, one after the other; here all are asked for at once.
#define MICA_HIT_CODE __attribute__((section("mica_hit_code")))

// The linker's names for its bounds.
extern "C" {
extern const char __start_mica_hit_code[] __attribute__((visibility("hidden")));
extern const char __stop_mica_hit_code[] __attribute__((visibility("hidden")));
}

namespace mica {

// Asks for all of it. Requires: there is some in the caller's library.
inline void PrefetchHitCode() {
  Prefetch(__start_mica_hit_code,
           static_cast<size_t>(__stop_mica_hit_code - __start_mica_hit_code));
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_HIT_CODE_H_
