// Composite operators that the dispatcher can't follow run by their parts.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_COMPOSITES_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_COMPOSITES_H_

#include "absl/status/status.h"

namespace mica {

// On kPartsKey, while a run is recorded, some operators run by their parts,
// with the same values: those that compute without another call where no
// gradient is wanted, of which a recorder below autograd sees nothing
// (max_pool1d), and those that move elements as views and a copy do
// (pixel_shuffle). Unimplemented if this torch uses that key. Call it once.
absl::Status InstallComposites();

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_COMPOSITES_H_
