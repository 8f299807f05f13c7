// Reads and writes safetensors files: an eight-byte length, a JSON header that
// names each tensor's type and bytes, then the bytes of all tensors.
//
// Made for files of unknown origin: each field is checked before it is used,
// and no input makes it crash, run code, or allocate more than the file holds.
// Source: the format's own description, in the safetensors project.

#ifndef MICA_FRAMEWORK_TENSOR_SAFETENSORS_H_
#define MICA_FRAMEWORK_TENSOR_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/tensor/tensor.h"

namespace mica {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct NamedTensors {
  std::vector<NamedTensor> tensors;
  // Free text about the file, such as the Program that the tensors belong to.
  std::map<std::string, std::string> metadata;
};

// Where a tensor's bytes lie, counted from the end of the header.
struct SafetensorsEntry {
  std::string name;
  TensorType type;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // Ordered by `begin`.
  std::map<std::string, std::string> metadata;
};

// The longest header that is read or written.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Parses the JSON text of a header whose tensors fill `data_bytes` bytes.
// Returns InvalidArgument, naming the tensor, for anything but a header whose
// tensors fill these bytes without gap or overlap, and Unimplemented for an
// element type that Mica doesn't have.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         int64_t data_bytes);

// Where the tensors of a file that was read lie.
enum class FileMemory {
  kOwn,  // In memory of their own.
  // In the file's pages, which all processes share that read it, and which the
  // system may take back; what is written to is the process's own. For files
  // that nobody shortens meanwhile: that would end the process.
  kMapped,
};

// Reads all tensors of a file, in the order of their bytes.
absl::StatusOr<NamedTensors> ReadSafetensors(
    const std::string& path, FileMemory memory = FileMemory::kOwn);

// Replaces the file at `path` by one with these tensors, each made row-major.
// Returns InvalidArgument for a name that is used twice, is "__metadata__", or
// isn't UTF-8, and for types that aren't static tensors.
absl::Status WriteSafetensors(
    const std::string& path, absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_SAFETENSORS_H_
