// Composite operators that the dispatcher can't follow run by their parts.

#ifndef MICA_PYTHON_CAPTURE_COMPOSITES_H_
#define MICA_PYTHON_CAPTURE_COMPOSITES_H_

#include "absl/status/status.h"

namespace mica {

// Some composite operators compute without another call where no gradient is
// wanted: a recorder below autograd sees nothing of them. Replaces these, on
// kPartsKey, by the form that autograd itself records; the values are the same.
// Unimplemented if this torch uses that key. Call it once.
absl::Status InstallComposites();

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_COMPOSITES_H_
