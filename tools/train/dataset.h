// What a training run reads: named tensors with one row a sample.

#ifndef MICA_TOOLS_TRAIN_DATASET_H_
#define MICA_TOOLS_TRAIN_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/tensor/safetensors.h"
#include "framework/tensor/tensor.h"

namespace mica {

// Tensors of one first size, by name, whole in memory. Immutable.
class Dataset {
 public:
  // `text` is "images=a.npy,labels=b.npy", or the name of a safetensors file.
  // `flag` is whose value it is, for errors, which name the file too.
  static absl::StatusOr<Dataset> Read(absl::string_view flag,
                                      const std::string& text);
  // InvalidArgument, beginning with `what`, if there is no tensor, one without
  // rows, or two that differ in their numbers of rows.
  static absl::StatusOr<Dataset> Make(absl::string_view what,
                                      std::vector<NamedTensor> fields);

  int64_t num_rows() const { return num_rows_; }
  // Null if there is none of that name.
  const Tensor* Find(absl::string_view name) const;
  // "images f32[1348,1,8,8], labels i64[1348]".
  std::string ToString() const;
  // Equal for equal contents, in every process.
  uint64_t Fingerprint() const;

  // InvalidArgument unless `name` is a field whose rows fill a `batch`, such as
  // f32[32,1,8,8].
  absl::Status CheckBatch(absl::string_view name,
                          const TensorType& batch) const;

 private:
  Dataset(std::string what, std::vector<NamedTensor> fields, int64_t num_rows)
      : what_(std::move(what)),
        fields_(std::move(fields)),
        num_rows_(num_rows) {}
  std::string what_;
  std::vector<NamedTensor> fields_;
  int64_t num_rows_;
};

// Copies `rows` of a row-major tensor to `to`, one behind another.
void CopyRows(const Tensor& from, absl::Span<const int64_t> rows, void* to);

// The order in which an epoch takes `count` samples: a permutation that
// depends on nothing but the three numbers, so that a run can go on anywhere.
std::vector<int64_t> EpochOrder(uint64_t seed, int64_t epoch, int64_t count);

}  // namespace mica

#endif  // MICA_TOOLS_TRAIN_DATASET_H_
