// Where a number in which runs differ comes from.

#ifndef MICA_ANALYSIS_SIZES_EXPLANATION_H_
#define MICA_ANALYSIS_SIZES_EXPLANATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "analysis/sizes/size_facts.h"
#include "analysis/sizes/size_rules.h"

namespace mica {

// Sizes that were equal in each run. Of which of them a number is, nobody
// knows: they have to be equal again.
using SizeGroup = int32_t;

// One way in which a number may follow from sizes.
struct SizeTerm {
  // `numerator` times this number of SizeFacts, which Python passed there; or,
  int32_t number = -1;
  int32_t use = -1;
  // a product of sizes, times `numerator` / `denominator`;
  std::vector<SizeGroup> groups;
  int64_t numerator = 1;
  int64_t denominator = 1;
  // or what ATen rounds to: a size times `scale`, rounded down, where that
  // isn't 0; a size by `parts`, rounded up. Or a size, or such a number, less a
  // constant; or `by_size`, where that isn't 0, divided by that.
  double scale = 0;
  int64_t parts = 0;
  int64_t less = 0;
  double by_size = 0;
};

// What a term makes of its product of sizes, but for a fraction.
double RoundBy(const SizeTerm& term, double product);

// A number in a call that isn't the same in all runs. All `terms` have to
// agree.
struct SizeSlot {
  int32_t call = -1;                    // Of the tape; or, if -1,
  TapeTensorId tensor = kNoTapeTensor;  // of this one.
  int32_t arg = 0;                      // Of the call, which argument.
  // Of a list; a constant's element; a tensor's dim.
  int32_t item = -1;
  // How long a list of tensors is.
  static constexpr int32_t kLength = -2;
  std::vector<SizeTerm> terms;
};

// The sizes that differ between runs, in groups.
class SizeGroups {
 public:
  explicit SizeGroups(absl::Span<const SizedTape> runs);
  // The same groups of a tape that has copies of these tensors, in order.
  SizeGroups Renumbered(absl::Span<const TapeTensorId> tensors) const;

  struct Member {
    int32_t dim = 0;
    SizeGroup group = 0;
  };
  // The sizes of a tensor that differ.
  absl::Span<const Member> of(TapeTensorId tensor) const {
    return members_[tensor];
  }
  // By run.
  const std::vector<int64_t>& values(SizeGroup group) const {
    return values_[group];
  }
  // Nothing if no size has these values.
  std::optional<SizeGroup> Find(absl::Span<const double> values) const;
  size_t size() const { return values_.size(); }

 private:
  std::vector<std::vector<Member>> members_;  // By tensor.
  std::vector<std::vector<int64_t>> values_;
  std::map<std::vector<int64_t>, SizeGroup> by_values_;
};

// Computes numbers as the sizes become known that they follow from.
class SizeNumbers {
 public:
  // All outlive this; `tensors` may change where nobody asked yet.
  SizeNumbers(const SizeFacts& facts, const SizeGroups& groups,
              absl::Span<const TensorSizes> tensors,
              absl::Span<const double> given);

  // The sizes of this tensor are known now.
  void Note(TapeTensorId tensor);
  // NaN if it can't be computed.
  double Of(int32_t number);
  double Of(const TapeHostOperand& operand) {
    return operand.id < 0 ? operand.constant : Of(operand.id);
  }
  // Nothing if sizes of a group differ, or it is no whole number, but for one
  // of SizeFacts.
  std::optional<double> Of(const SizeTerm& term);

 private:
  double Compute(const SizeFacts::Number& number);
  std::optional<double> ProductOf(const SizeTerm& term) const;

  const SizeFacts& facts_;
  const SizeGroups& groups_;
  const absl::Span<const TensorSizes> tensors_;
  const absl::Span<const double> given_;
  std::vector<double> values_;  // By number.
  std::vector<bool> is_known_;
  std::vector<int64_t> sizes_;  // By group; -1: not known yet, -2: they differ.
};

// Looks for terms that give each run's value. Asked for slots in the order of
// the calls. All that it is given outlives it.
class Explainer {
 public:
  // `facts` of the last run. `in_run` says which number stands for one in a
  // run that went through a loop less often.
  Explainer(absl::Span<const SizedTape> runs, const SizeFacts& facts,
            const SizeGroups& groups, int num_args,
            const std::function<int32_t(size_t run, int32_t number)>& in_run);

  // Of a whole number in call `call`, or of a float: `values` by run. Empty if
  // there is none. `is_count`: where C++ code puts sizes and products of them.
  std::vector<SizeTerm> Explain(int32_t call, absl::Span<const double> values,
                                bool is_whole, bool is_count) const;
  // Notes that the numbers that fit were used so.
  void NoteUsed(absl::Span<const SizeTerm> terms);

  // facts.numbers of each run.
  double NumberIn(size_t run, int32_t number) const {
    return numbers_[run][number];
  }
  bool IsSame(int32_t number) const;
  bool IsUsed(int32_t use, int32_t number) const {
    return used_.contains({use, number});
  }

 private:
  bool Fits(int32_t number, absl::Span<const double> values,
            double factor) const;
  std::vector<SizeTerm> ExplainByNumbers(int32_t call,
                                         absl::Span<const double> values) const;
  // Of autograd's, which passes on what the run's own calls got.
  std::vector<SizeTerm> ExplainByEarlier(absl::Span<const double> values) const;
  std::vector<SizeTerm> ExplainByProducts(
      int32_t call, absl::Span<const double> values) const;
  // Of the arguments and of the call's operands.
  std::vector<SizeGroup> GroupsAt(int32_t call) const;

  const Tape& last_;
  const SizeFacts& facts_;
  const SizeGroups& groups_;
  const int num_args_;
  std::vector<int32_t> first_;  // By group: the call that gave the first of it.
  std::vector<std::vector<double>> numbers_;    // By run.
  std::set<std::pair<int32_t, int32_t>> used_;  // By use and number.
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_EXPLANATION_H_
