// A way along a tape's calls at other sizes.

#ifndef MICA_ANALYSIS_SIZES_SIZE_WALK_H_
#define MICA_ANALYSIS_SIZES_SIZE_WALK_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "analysis/sizes/size_template.h"
#include "framework/tensor/dtype.h"

namespace mica {

// Finds all tensors' sizes and all calls' numbers, in order, of those of the
// inputs. For one Go().
class SizeTemplate::Walk {
 public:
  // Both outlive it.
  Walk(const SizeTemplate& made, absl::Span<const double> given);

  // Has the strides of results that aren't as the operator says follow from how
  // they lay in the template's own tape, and `explain` called for the sizes of
  // those that it says nothing of. Before Go(), at its sizes.
  using ExplainFn = std::function<absl::Status(TapeTensorId id, int32_t call)>;
  void Learn(std::vector<Lies>* lies, ExplainFn explain) {
    learned_ = lies;
    explain_ = std::move(explain);
  }

  absl::Status Go(absl::Span<const TensorSizes> inputs);
  // What comes before call `end` alone.
  absl::Status GoTo(absl::Span<const TensorSizes> inputs, int32_t end);
  // Whether each size varies that did in the runs and no other does, and none
  // is 0 or 1 that wasn't.
  absl::Status CheckAlike() const;
  // Whether reshape() copies where it did.
  absl::Status CheckCopies() const;
  // Comes last: takes what the walk found, and the template's tape if that is
  // its own.
  absl::StatusOr<Tape> MakeTape();

  bool IsKnown(TapeTensorId id) const { return is_known_[id]; }
  const std::vector<TensorSizes>& sizes() const { return sizes_; }
  SizeNumbers& numbers() { return numbers_; }
  // By call; empty of one that wasn't made.
  const std::vector<std::vector<TapeValue>>& args() const { return args_; }

 private:
  void Set(TapeTensorId id, TensorSizes sizes) {
    sizes_[id] = std::move(sizes);
    is_known_[id] = true;
    numbers_.Note(id);
  }
  // A tensor that no call gives.
  absl::Status SetOrigin(TapeTensorId id);
  absl::Status SetExplained(TapeTensorId id);
  absl::Status SetAlias(TapeTensorId id);
  absl::Status MakeCall(int32_t index);
  absl::Status CheckEnds(const TapeCall& call,
                         absl::Span<const TapeValue> args) const;
  // Notes how a result lies, `given` by its rule.
  absl::Status Take(int32_t call, TapeTensorId id,
                    std::optional<TensorSizes> given);
  absl::Status LearnLayout(int32_t call, TapeTensorId id,
                           const std::optional<TensorSizes>& given);
  absl::StatusOr<double> ValueOf(const SizeSlot& slot);

  const SizeTemplate& made_;
  const Tape& tape_;
  std::vector<Lies>* learned_ = nullptr;
  ExplainFn explain_;
  std::vector<TensorSizes> sizes_;
  std::vector<bool> is_known_;
  std::vector<std::vector<TapeValue>> args_;
  std::vector<double> elements_;  // By slot, of constants.
  SizeNumbers numbers_;
  size_t next_slot_ = 0;
};

// In what runs, or sizes, are unlike each other.
inline absl::Status Unlike(const std::string& what) {
  return absl::FailedPreconditionError(what);
}

// A number that is whole and small enough for a double to tell it from others.
std::optional<int64_t> WholeOf(double number);

// An element of a constant.
bool CanReadElement(DType dtype);
double ReadElement(const std::string& bytes, DType dtype, size_t index);
void WriteElement(double value, DType dtype, size_t index, std::string* bytes);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SIZE_WALK_H_
