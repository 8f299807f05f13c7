// Gives back what large tables had.

#ifndef MICA_FRAMEWORK_BASE_TRIM_LARGE_H_
#define MICA_FRAMEWORK_BASE_TRIM_LARGE_H_

namespace mica {

// The system gets back the pages that are kept for the next large tables
// (AllocateLarge): for who measures how much memory something takes.
// Thread-safe.
void TrimLarge();

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_TRIM_LARGE_H_
