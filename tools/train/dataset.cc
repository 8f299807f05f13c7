#include "tools/train/dataset.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/tensor/npy.h"
#include "tools/flags.h"
#include "tools/mix.h"

namespace mica {
absl::StatusOr<Dataset> Dataset::Read(absl::string_view flag,
                                      const std::string& text) {
  std::vector<NamedTensor> fields;
  if (absl::StrContains(text, '=')) {
    MICA_ASSIGN_OR_RETURN(const auto files, SplitPairs(flag, text));
    for (const auto& [name, path] : files) {
      MICA_ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(path));
      fields.push_back({.name = name, .tensor = std::move(tensor)});
    }
  } else {
    MICA_ASSIGN_OR_RETURN(NamedTensors file, ReadSafetensors(text));
    fields = std::move(file.tensors);
  }
  return Make(absl::StrCat("--", flag, "=", text), std::move(fields));
}

absl::StatusOr<Dataset> Dataset::Make(absl::string_view what,
                                      std::vector<NamedTensor> fields) {
  if (fields.empty()) return Invalid(what, ": there is no tensor");
  for (const NamedTensor& field : fields) {
    const TensorType& type = field.tensor.type();
    if (type.rank() == 0 || type.dims[0] == 0) {
      return Invalid(what, ": ", field.name, ": wants a tensor with rows, got ",
                     type.ToString());
    }
    if (type.dims[0] != fields[0].tensor.type().dims[0]) {
      return Invalid(what, ": ", field.name, " has ", type.dims[0],
                     " rows where ", fields[0].name, " has ",
                     fields[0].tensor.type().dims[0]);
    }
  }
  const int64_t num_rows = fields[0].tensor.type().dims[0];
  return Dataset(std::string(what), std::move(fields), num_rows);
}

const Tensor* Dataset::Find(absl::string_view name) const {
  for (const NamedTensor& field : fields_) {
    if (field.name == name) return &field.tensor;
  }
  return nullptr;
}

std::string Dataset::ToString() const {
  return absl::StrJoin(fields_, ", ", [](std::string* out, const auto& field) {
    absl::StrAppend(out, field.name, " ", field.tensor.type().ToString());
  });
}

uint64_t Dataset::Fingerprint() const {
  uint64_t hash = HashBytes(ToString());
  for (const NamedTensor& field : fields_) {
    hash =
        Mix(hash ^
            HashBytes({static_cast<const char*>(field.tensor.data()),
                       static_cast<size_t>(field.tensor.type().num_bytes())}));
  }
  return hash;
}

absl::Status Dataset::CheckBatch(absl::string_view name,
                                 const TensorType& batch) const {
  const Tensor* field = Find(name);
  if (field == nullptr) {
    return Invalid(what_, ": wants \"", name, "\" for batches ",
                   batch.ToString(), ", got ", ToString());
  }
  TensorType row = field->type();
  row.dims[0] = batch.dims[0];
  if (SameShape(row, batch) && batch.is_row_major()) return absl::OkStatus();
  return Invalid(what_, ": \"", name, "\": batches are ", batch.ToString(),
                 ", got ", field->type().ToString());
}

void CopyRows(const Tensor& from, absl::Span<const int64_t> rows, void* to) {
  const int64_t row_bytes = from.type().num_bytes() / from.type().dims[0];
  const char* base = static_cast<const char*>(from.data());
  char* out = static_cast<char*>(to);
  for (const int64_t row : rows) {
    std::memcpy(out, base + row * row_bytes, row_bytes);
    out += row_bytes;
  }
}

std::vector<int64_t> EpochOrder(uint64_t seed, int64_t epoch, int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = Mix(Mix(seed) ^ static_cast<uint64_t>(epoch));
  for (int64_t i = count - 1; i > 0; --i) {
    state += kMixStep;
    // The bias of a remainder is below count / 2^64.
    const uint64_t other = Mix(state) % static_cast<uint64_t>(i + 1);
    std::swap(order[i], order[other]);
  }
  return order;
}

}  // namespace mica
