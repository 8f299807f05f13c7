// What the C API's opaque types are.

#ifndef MICA_SDK_HANDLES_H_
#define MICA_SDK_HANDLES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "executor/executor.h"
#include "executor/run_handle.h"
#include "framework/saved/saved_program.h"
#include "framework/tensor/tensor.h"
#include "sdk/mica.h"

struct mica_error {
  absl::Status status;
  std::string message;
};

struct mica_tensor {
  mica::Tensor tensor;
  std::vector<int64_t> dims, strides;
};

struct mica_cancel {
  mica::RunHandle handle;
};

namespace mica {

// An input, output or variable, as mica_value shows it.
struct ModelValue {
  std::string name;
  TensorType type;
  std::vector<int64_t> dims;         // -1 for a symbol.
  std::vector<std::string> names;    // Of symbols, by dim.
  std::vector<const char*> symbols;  // Theirs, or null.
};

}  // namespace mica

struct mica_model {
  mica::SavedProgram saved;
  std::unique_ptr<mica::Executor> executor;
  std::vector<mica::ModelValue> inputs, outputs, variables;
  mica::NamedViews views;  // Of the variables.
  bool is_frozen = false;
  std::atomic<bool> was_run = false;
};

namespace mica {

// Null for OK.
mica_error* ErrorOf(const absl::Status& status);

absl::Status NullArgument(absl::string_view name);

// What `call` gives, as an error of the C API: no exception leaves the library.
template <typename Call>
mica_error* Guarded(const Call& call) {
  try {
    return ErrorOf(call());
  } catch (const std::bad_alloc&) {
    return ErrorOf(absl::ResourceExhaustedError("no memory"));
  } catch (const std::exception& error) {
    return ErrorOf(absl::InternalError(error.what()));
  }
}

}  // namespace mica

#endif  // MICA_SDK_HANDLES_H_
