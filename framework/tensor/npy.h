// Reads and writes npy files: numpy's format for one array.
//
// Made for files of unknown origin: the header is read by a scanner of our own
// that knows three fields and no Python, and each field is checked.
// Source: numpy's description of the format, versions 1.0, 2.0 and 3.0.

#ifndef MICA_FRAMEWORK_TENSOR_NPY_H_
#define MICA_FRAMEWORK_TENSOR_NPY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/tensor.h"

namespace mica {

// Parses a header's text, such as
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// The type has strides if the array is in Fortran order. Returns
// InvalidArgument for anything else, and Unimplemented for big-endian numbers
// and for element types that Mica doesn't have.
absl::StatusOr<TensorType> ParseNpyHeader(absl::string_view text);

// Reads the array, row-major whatever its order in the file.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);

// Replaces the file at `path`. Returns InvalidArgument for a type that isn't a
// static tensor, and Unimplemented for bf16, which numpy doesn't have.
absl::Status WriteNpy(const std::string& path, const TensorView& tensor);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_NPY_H_
