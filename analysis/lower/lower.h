// From what the dispatcher did to a Program in SSA form.

#ifndef MICA_ANALYSIS_LOWER_LOWER_H_
#define MICA_ANALYSIS_LOWER_LOWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/lower/tape.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"
#include "framework/tensor/dtype.h"

namespace mica {

// How one entry of Tape::results is had after a run: a window on a Program
// output's memory, or on the memory of an input or a state.
struct LoweredResult {
  enum class Source { kOutput, kInput, kState };
  Source source = Source::kOutput;
  int32_t index = 0;  // In Program::outputs, Tape::inputs or Tape::states.
  // The window, in elements from the address of that tensor's first element.
  // Where only one of the two is complex, the offset is in real elements.
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  // Where the offset goes by numbers of the run: the output that has it, as a
  // float64 scalar. Else -1.
  int32_t moved = -1;
  // Complex numbers may be seen as their parts, and those as complex numbers.
  DType dtype = DType::kF32;
  // torch's lazy bits, which the window has beyond what memory holds.
  bool is_conj = false;
  bool is_neg = false;
};

// A Tape as a Program, with the way back to the user's tensors.
struct LoweredTape {
  // Inputs in the order of Tape::inputs, then the host values that are inputs,
  // float64 scalars. Variables: first Tape::states, in order, then large
  // constants. Outputs: memory of results and where they are in it, then host
  // reads, host results.
  Program program;
  std::vector<LoweredResult> results;  // As many as Tape::results.
  // The tape's constants that are variables of the Program for their size, in
  // order of the variables behind the states.
  std::vector<TapeTensorId> large_constants;
  // Index in Program::outputs of the scalar that Tape::host_reads[i] read; or
  // kProven, if it depends on nothing that may change and is no output.
  static constexpr int32_t kProven = -1;
  std::vector<int32_t> host_reads;
  // The same for Tape::host_results; then numbers that nobody uses and whose
  // making may fail.
  std::vector<int32_t> host_results;
};

struct LowerOptions {
  // Every operator that computes is left to ATen, as the tape has it.
  bool keep_calls = false;
  // Operators are left to ATen whose results users tell from those of Mica's
  // kernels by more than rounding (discrete_results.h).
  bool keep_discrete_results = false;
};

// Constants up to this many bytes are inline in the Program.
inline constexpr int64_t kMaxInlineConstantBytes = 4096;

// In-place and out= calls become functional ones, writes through views become
// mica.scatter_view, and what is written to inputs and states becomes updates
// at the end. Operators that `registry` lacks become opaque ones; so do those
// that have to do with complex numbers or lazy bits (complex_calls.h), and
// those whose results' sizes depend on data: a run whose sizes differ fails.
//
// Unimplemented, naming the op and the user's line, for what a Program can't
// say: dtypes such as complex32, devices other than the CPU.
absl::StatusOr<LoweredTape> LowerTape(const Tape& tape,
                                      const OpRegistry& registry,
                                      const LowerOptions& options = {});

// A failure that is about the call of that TapeCall::place, and the place of
// such a one.
absl::Status WithPlace(absl::Status failure, int32_t place);
std::optional<int32_t> PlaceOfFailure(const absl::Status& failure);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_LOWER_H_
