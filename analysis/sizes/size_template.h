// The tape of a run at other sizes.

#ifndef MICA_ANALYSIS_SIZES_SIZE_TEMPLATE_H_
#define MICA_ANALYSIS_SIZES_SIZE_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "analysis/sizes/explanation.h"
#include "analysis/sizes/rounds.h"
#include "analysis/sizes/size_facts.h"
#include "analysis/sizes/size_rules.h"
#include "framework/op/op_registry.h"

namespace mica {

// What holds of sizes wherever a program goes the same way: `a` by `divisor`,
// rounded down, is in this relation to `b`.
struct SizeCondition {
  int64_t a = 0;
  int64_t divisor = 1;
  std::string relation;  // "<", "<=", ">", ">=", "==" or "!=".
  int64_t b = 0;
};

// What several runs of one program have in common that differ in sizes alone:
// they made the same calls, and each number in which these differ follows from
// the sizes of the inputs. They may have gone through loops in other numbers of
// rounds (SizeFacts::Loop), which follow from sizes, too. Immutable.
//
// Where a number comes from is known of those that Python passed (SizeFacts).
// Others were computed in C++ (what matmul() passes to view(), autograd to
// expand()): of them it is looked for, among the sizes of the tensors that
// there were by then and products of these. All that fit the runs at hand have
// to agree at other sizes, too, and the operators have to accept them, else
// At() fails, and the program is to be watched at these sizes. In the same way
// the sizes of results are found for which there is no rule.
class SizeTemplate {
 public:
  // Of two runs or more, `facts` of the last one. The first `num_args` inputs
  // are given; others are the gradients that a later backward pass is given.
  // FailedPrecondition says in what the runs differ otherwise, or what can't be
  // explained.
  static absl::StatusOr<std::shared_ptr<const SizeTemplate>> Make(
      std::vector<SizedTape> runs, SizeFacts facts, int num_args,
      const OpRegistry& ops);

  // The last tape, as the program would make it of inputs of these sizes, one
  // for each of the `num_args`, and of these numbers (SizeFacts::given). Fails
  // if that doesn't follow from the runs.
  absl::StatusOr<Tape> At(absl::Span<const TensorSizes> inputs,
                          absl::Span<const double> given = {}) const;

  // What At() checks of these sizes by numbers; the same conditions, in the
  // same order, at all sizes. Fails where they don't say all: of loops over
  // sizes, of numbers that aren't whole, and of some that are no sums, products
  // or rounded quotients of sizes.
  absl::StatusOr<std::vector<SizeCondition>> ConditionsAt(
      absl::Span<const TensorSizes> inputs,
      absl::Span<const double> given = {}) const;

  // Whether a size of the input varies.
  bool IsOpen(int input) const {
    return !groups_->of(tape().inputs[input]).empty();
  }
  std::vector<int> OpenDims(int input) const;
  // Whether a number that is given varies.
  bool IsGivenOpen(int number) const;
  const SizeFacts& facts() const { return facts_; }
  const Tape& tape() const { return *runs_.back().tape; }
  // As they were recorded.
  absl::Span<const SizedTape> runs() const { return recorded_; }

 private:
  class Maker;
  class Walk;
  friend class Maker;

  // How the strides of a tensor follow.
  enum class Layout : uint8_t {
    kGiven,   // As the operator gives them.
    kDense,   // Without gaps, in `order`.
    kGapped,  // As the caller gives them: in `order`, with gaps where there
              // were some, of any width.
    kFixed,   // As they are.
  };
  struct Lies {
    Layout layout = Layout::kGiven;
    std::vector<int> order;  // Dims, the outermost first.
  };

  // How an alias (TapeOrigin::kAlias) follows from its base.
  struct Alias {
    enum Form : uint8_t {
      kFixed,      // It is as it was.
      kWhole,      // Of the same sizes, as Tensor.data has them.
      kOrdered,    // Its dims in another order, as transpose_() leaves them.
      kExplained,  // All of it, in sizes that explained_ tells.
      kUnknown,
    };
    Form form = kFixed;
    std::vector<int> order;  // kOrdered: of the base's dims.
  };

  SizeTemplate(int num_args, const OpRegistry& ops)
      : num_args_(num_args), ops_(ops) {}
  absl::StatusOr<Tape> AtOwnCounts(absl::Span<const TensorSizes> inputs,
                                   absl::Span<const double> given) const;
  // How often each loop goes for inputs of these sizes.
  absl::StatusOr<std::vector<int32_t>> CountsAt(
      absl::Span<const TensorSizes> inputs,
      absl::Span<const double> given) const;
  // The template of runs that go through loops so often.
  absl::StatusOr<std::unique_ptr<SizeTemplate>> WithCounts(
      std::vector<int32_t> counts) const;
  // Whether loops go as often as they do in the template's tape.
  absl::Status CheckCounts(SizeNumbers& numbers,
                           absl::Span<const TensorSizes> sizes) const;
  static bool LiesAsBefore(const TensorSizes& given, const TapeTensor& own,
                           const Lies& lies);
  absl::Status CheckInputs(absl::Span<const TensorSizes> inputs) const;
  absl::Status CheckGiven(absl::Span<const double> given) const;
  // Whether a slice is all of its dim.
  static bool IsAll(const SizeFacts::Slice& slice, SizeNumbers& numbers,
                    absl::Span<const TensorSizes> tensors);
  // Whether slices that were all of their dims are.
  absl::Status CheckSlices(SizeNumbers& numbers,
                           absl::Span<const TensorSizes> tensors) const;
  // Whether the program goes the way that it went.
  absl::Status CheckComparisons(SizeNumbers& numbers) const;

  class Conditions;
  class Unroller;

  std::vector<SizedTape> recorded_;
  std::vector<SizedTape> runs_;  // They make the same calls.
  // Of one that is made for one At(), which takes it: the tape of runs_.
  std::shared_ptr<Tape> own_tape_;
  SizeFacts facts_;
  Rounds rounds_;  // Of loops, if runs went through them in other numbers.
  const int num_args_;
  const OpRegistry& ops_;
  std::unique_ptr<SizeGroups> groups_;
  std::vector<Lies> lies_;  // By tensor.
  absl::flat_hash_map<TapeTensorId, Alias> aliases_;
  std::vector<SizeSlot> slots_;  // In order of the calls.
  // By tensor: sizes of inputs beyond `num_args`, of aliases, and of results
  // that no rule gives. Of such, all that don't vary are as they were.
  absl::flat_hash_map<TapeTensorId, std::vector<SizeSlot>> explained_;
  // Slices that were all of their dims, and so are no calls.
  std::vector<SizeFacts::Slice> slices_;
  // Numbers that were the same each time.
  std::vector<std::pair<int32_t, double>> constant_;
};

// The strides of a tensor of these sizes without gaps, its dims in this order,
// the outermost first.
std::vector<int64_t> DenseStrides(absl::Span<const int64_t> sizes,
                                  absl::Span<const int> order);
// The order in which dims lie, the outermost first.
std::vector<int> StrideOrder(absl::Span<const int64_t> sizes,
                             absl::Span<const int64_t> strides);
// Whether there is a gap behind each dim, by dim; behind none of one element.
// Nothing if an element lies in several places of the tensor.
std::optional<std::vector<bool>> GapsOf(absl::Span<const int64_t> sizes,
                                        absl::Span<const int64_t> strides);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SIZE_TEMPLATE_H_
