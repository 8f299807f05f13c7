// A Program with its variables' values, as a folder of three files:
//
//   program.mica         the Program's text
//   weights.safetensors  the variables' values, by name
//   signature.json       how a caller's arguments and results are nested; for
//                        Python, and empty where nobody wrote one
//
// Made for files of unknown origin, as the readers of the single files are.

#ifndef MICA_FRAMEWORK_SAVED_SAVED_PROGRAM_H_
#define MICA_FRAMEWORK_SAVED_SAVED_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"
#include "framework/tensor/safetensors.h"
#include "framework/tensor/tensor.h"

namespace mica {

struct SavedProgram {
  std::shared_ptr<const Program> program;
  // In the order of Program::variables(), and of their types.
  std::vector<Tensor> variables;
  std::string signature;
};

// Where a folder keeps its parts.
std::string ProgramFileOf(absl::string_view folder);
std::string WeightsFileOf(absl::string_view folder);
std::string SignatureFileOf(absl::string_view folder);

// Reads a Program's text. Errors name the file.
absl::StatusOr<std::shared_ptr<const Program>> ReadProgramFile(
    const std::string& path, const OpRegistry& registry);

// One tensor for each variable of `program`, in their order and with their
// types, out of what `file` held. InvalidArgument, naming the file and the
// variable, where one is missing, is of another type, or isn't the Program's.
absl::StatusOr<std::vector<Tensor>> FitVariables(
    const Program& program, absl::Span<const NamedTensor> tensors,
    absl::string_view file);

// All of a folder that WriteSavedProgram() made, but for the variables' values
// if they are to come from another file than its own. Errors name the file.
absl::StatusOr<SavedProgram> ReadSavedProgram(
    const std::string& folder, const OpRegistry& registry,
    FileMemory memory = FileMemory::kOwn, std::string weights = "");

// Replaces the folder: readers see the old one or the new one, whole.
// InvalidArgument if there is something else at `folder`, or if variables and
// Program don't fit; Unimplemented, naming the ops with the user's lines, if
// the Program has opaque ones, which only Python could run.
absl::Status WriteSavedProgram(const std::string& folder,
                               const SavedProgram& saved);

// "aten.foo (model.py:12), aten.bar (model.py:14)": opaque ops, each line
// once; empty if there are none.
std::string DescribeOpaqueOps(const Program& program);

}  // namespace mica

#endif  // MICA_FRAMEWORK_SAVED_SAVED_PROGRAM_H_
