#include "analysis/sizes/size_template.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/sizes/fixed_numbers.h"
#include "analysis/sizes/same_calls.h"
#include "analysis/sizes/size_walk.h"
#include "framework/base/same_bits.h"
#include "framework/base/status.h"
#include "framework/tensor/dtype.h"
#include "kernels/reference/host_arithmetic.h"

namespace mica {
namespace {

absl::Status Unlike(const std::string& what) {
  return absl::FailedPreconditionError(what);
}

std::string LineOf(const TapeCall& call) {
  return call.line == 0 ? ""
                        : absl::StrCat(" (", call.file, ":", call.line, ")");
}

std::string NameOf(const TapeTensor& tensor) {
  return tensor.name.empty() ? "a tensor" : tensor.name;
}

// Whether C++ code passes sizes and numbers of elements by this name. Where a
// dim is cut, by a start and an end, Python says.
bool IsCount(const TapeCall& call, absl::string_view arg_name) {
  static constexpr absl::string_view kNames[] = {
      "size", "sizes", "shape", "N", "C", "HxW", "normalized_shape"};
  // Of autograd's formulas.
  static constexpr absl::string_view kBackwardNames[] = {
      "input_sizes", "input_size", "self_sizes", "output_size",
      "other",       "value",      "bias_sizes", "num_weights"};
  if (call.op == "aten._reshape_alias") return true;
  if (absl::c_linear_search(kNames, arg_name)) return true;
  const bool is_backward = call.is_backward || call.later_part >= 0 ||
                           absl::StrContains(call.op, "backward");
  return is_backward && absl::c_linear_search(kBackwardNames, arg_name);
}

bool IsAll(const SizeFacts::Slice& slice, SizeNumbers& numbers,
           absl::Span<const TensorSizes> tensors) {
  if (slice.has_start || slice.dim == SizeFacts::Slice::kNoDim) return false;
  const std::vector<int64_t>& sizes = tensors[slice.tensor].sizes;
  const auto rank = static_cast<int32_t>(sizes.size());
  const int32_t dim = slice.dim < 0 ? slice.dim + rank : slice.dim;
  if (dim < 0 || dim >= rank) return false;
  return numbers.Of(slice.stop) >= static_cast<double>(sizes[dim]);
}

// What a comparison gives; nothing if a number isn't known.
std::optional<bool> OutcomeOf(const SizeFacts::Comparison& comparison,
                              SizeNumbers& numbers) {
  const double a = numbers.Of(comparison.a), b = numbers.Of(comparison.b);
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  const HostOp* op = FindHostOp(comparison.op);
  double outcome = 0;
  if (op == nullptr || op->compute(a, b, &outcome) != nullptr) {
    return std::nullopt;
  }
  return outcome != 0;
}

}  // namespace

std::vector<int64_t> DenseStrides(absl::Span<const int64_t> sizes,
                                  absl::Span<const int> order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[*dim] = stride;
    stride *= std::max<int64_t>(sizes[*dim], 1);
  }
  return strides;
}

std::vector<int> StrideOrder(absl::Span<const int64_t> sizes,
                             absl::Span<const int64_t> strides) {
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  // A dim of one element may have any stride.
  absl::c_stable_sort(order, [&](int a, int b) {
    return std::pair(strides[a], sizes[a]) > std::pair(strides[b], sizes[b]);
  });
  return order;
}

// Makes a template, in order: the runs made the same calls, inputs that lie as
// before, a term for each number, and a walk at each run's own sizes that gives
// just what that run did.
class SizeTemplate::Maker {
 public:
  Maker(SizeTemplate& made)
      : made_(made),
        last_(made.tape()),
        explainer_(made.tapes_, made.facts_, *made.groups_, made.num_args_) {}

  absl::Status Make() {
    for (const auto& tape : made_.tapes_) {
      MICA_RETURN_IF_ERROR(CheckSameCalls(*tape, last_));
    }
    MICA_RETURN_IF_ERROR(CheckStates());
    MICA_RETURN_IF_ERROR(FindOpen());
    MICA_RETURN_IF_ERROR(CheckShared());
    MICA_RETURN_IF_ERROR(FindAliases());
    MICA_RETURN_IF_ERROR(FindRoots());
    for (size_t i = 0; i < last_.calls.size(); ++i) {
      MICA_RETURN_IF_ERROR(ExplainCall(static_cast<int32_t>(i)));
    }
    MICA_RETURN_IF_ERROR(
        CheckFixedNumbers(last_, made_.facts_, *made_.groups_));
    MICA_RETURN_IF_ERROR(CheckFixedProducts(last_, *made_.groups_));
    MICA_RETURN_IF_ERROR(FindSlices());
    MICA_RETURN_IF_ERROR(CheckNumbers());
    MICA_RETURN_IF_ERROR(CheckPinned());
    return CheckRuns();
  }

 private:
  std::vector<double> ValuesOf(
      const std::function<double(const Tape&)>& read) const {
    std::vector<double> values;
    for (const auto& tape : made_.tapes_) values.push_back(read(*tape));
    return values;
  }
  static bool AreSame(absl::Span<const double> values) {
    return absl::c_all_of(
        values, [&](double value) { return SameBits(value, values[0]); });
  }

  absl::Status CheckStates() {
    for (const TapeTensorId id : last_.states) {
      for (const auto& tape : made_.tapes_) {
        const TapeTensor& tensor = tape->tensors[id];
        if (tensor.sizes == last_.tensors[id].sizes &&
            tensor.strides == last_.tensors[id].strides) {
          continue;
        }
        return Unlike(absl::StrCat(tensor.name, ", of the state, was another"));
      }
    }
    return absl::OkStatus();
  }

  // How a tensor that isn't computed lies in all runs.
  absl::StatusOr<Lies> FindLayout(TapeTensorId id) const {
    const TapeTensor& own = last_.tensors[id];
    Lies lies{.layout = Layout::kDense,
              .order = StrideOrder(own.sizes, own.strides)};
    bool is_dense = true, is_fixed = true;
    for (const auto& tape : made_.tapes_) {
      const TapeTensor& tensor = tape->tensors[id];
      is_dense &= tensor.strides == DenseStrides(tensor.sizes, lies.order);
      is_fixed &= tensor.strides == own.strides;
    }
    if (is_dense) return lies;
    if (is_fixed) return Lies{.layout = Layout::kFixed};
    return Unlike(absl::StrCat("the strides of ", NameOf(own),
                               " differ in an unknown way"));
  }

  absl::Status FindOpen() {
    made_.lies_.resize(last_.tensors.size());
    made_.open_.resize(last_.inputs.size());
    bool is_any = false;
    for (size_t i = 0; i < last_.inputs.size(); ++i) {
      const TapeTensorId id = last_.inputs[i];
      MICA_ASSIGN_OR_RETURN(made_.lies_[id], FindLayout(id));
      for (size_t d = 0; d < last_.tensors[id].sizes.size(); ++d) {
        const std::vector<double> values = SizesIn(id, static_cast<int>(d));
        if (AreSame(values)) continue;
        made_.open_[i] = true;
        is_any |= static_cast<int>(i) < made_.num_args_;
        // Where there is one, or none, operators do other things.
        if (absl::c_any_of(values, [](double size) { return size < 2; })) {
          return Unlike(absl::StrCat("a size of ", NameOf(last_.tensors[id]),
                                     " was 0 or 1"));
        }
      }
    }
    return is_any ? absl::OkStatus() : Unlike("no size of an argument differs");
  }

  std::vector<double> SizesIn(TapeTensorId id, int dim) const {
    return ValuesOf([&](const Tape& tape) {
      return static_cast<double>(tape.tensors[id].sizes[dim]);
    });
  }

  // The gradients that a later pass is given are as large as what was given.
  absl::Status FindRoots() {
    for (size_t i = made_.num_args_; i < last_.inputs.size(); ++i) {
      MICA_RETURN_IF_ERROR(
          ExplainSizes(last_.inputs[i], FirstUse(last_.inputs[i])));
    }
    return absl::OkStatus();
  }

  absl::Status ExplainSizes(TapeTensorId id, int32_t call) {
    std::vector<SizeSlot>& slots = made_.explained_[id];
    for (size_t d = 0; d < last_.tensors[id].sizes.size(); ++d) {
      const auto dim = static_cast<int32_t>(d);
      const std::vector<double> values = SizesIn(id, dim);
      if (AreSame(values)) continue;
      SizeSlot slot{.tensor = id, .item = dim};
      slot.terms = explainer_.Explain(call, values, /*is_whole=*/true,
                                      /*is_count=*/true);
      if (slot.terms.empty()) {
        return Unlike(absl::StrCat(
            call < static_cast<int32_t>(last_.calls.size())
                ? absl::StrCat(last_.calls[call].op, LineOf(last_.calls[call]))
                : "a gradient",
            ": nobody knows where a size of ", absl::StrJoin(values, " and "),
            " comes from"));
      }
      slots.push_back(std::move(slot));
    }
    return absl::OkStatus();
  }

  // Where views begin of memory whose size varies, nobody knows.
  absl::Status CheckShared() const {
    absl::flat_hash_map<int32_t, int> uses;
    for (const auto* ids : {&last_.inputs, &last_.states}) {
      for (const TapeTensorId id : *ids) ++uses[last_.tensors[id].storage];
    }
    for (size_t i = 0; i < last_.inputs.size(); ++i) {
      const TapeTensor& tensor = last_.tensors[last_.inputs[i]];
      if (!made_.open_[i] || uses[tensor.storage] == 1) continue;
      return Unlike(absl::StrCat(NameOf(tensor), " shares its memory"));
    }
    return absl::OkStatus();
  }

  absl::Status FindAliases() {
    for (size_t t = 0; t < last_.tensors.size(); ++t) {
      const auto id = static_cast<TapeTensorId>(t);
      if (last_.tensors[id].origin != TapeOrigin::kAlias) continue;
      MICA_ASSIGN_OR_RETURN(made_.lies_[id], FindLayout(id));
    }
    return absl::OkStatus();
  }

  int32_t FirstUse(TapeTensorId id) const {
    for (size_t i = 0; i < last_.calls.size(); ++i) {
      bool takes = false;
      for (const TapeValue& arg : last_.calls[i].args) {
        ForEachTensor(arg, [&](TapeTensorId one) { takes |= one == id; });
      }
      if (takes) return static_cast<int32_t>(i);
    }
    return static_cast<int32_t>(last_.calls.size());
  }

  absl::Status ExplainCall(int32_t index) {
    const TapeCall& call = last_.calls[index];
    for (size_t i = 0; i < call.args.size(); ++i) {
      const auto arg = static_cast<int32_t>(i);
      const auto read = [&](const Tape& tape) -> const TapeValue& {
        return tape.calls[index].args[arg];
      };
      SizeSlot slot{.call = index, .arg = arg};
      if (std::holds_alternative<int64_t>(call.args[i])) {
        MICA_RETURN_IF_ERROR(Explain(slot, ValuesOf([&](const Tape& tape) {
                                       return static_cast<double>(
                                           std::get<int64_t>(read(tape)));
                                     }),
                                     true));
      } else if (std::holds_alternative<double>(call.args[i])) {
        MICA_RETURN_IF_ERROR(Explain(slot, ValuesOf([&](const Tape& tape) {
                                       return std::get<double>(read(tape));
                                     }),
                                     false));
      } else if (const auto* ints =
                     std::get_if<std::vector<int64_t>>(&call.args[i])) {
        for (size_t k = 0; k < ints->size(); ++k) {
          slot.item = static_cast<int32_t>(k);
          MICA_RETURN_IF_ERROR(
              Explain(slot, ValuesOf([&](const Tape& tape) {
                        return static_cast<double>(
                            std::get<std::vector<int64_t>>(read(tape))[k]);
                      }),
                      true));
        }
      } else if (const auto* reals =
                     std::get_if<std::vector<double>>(&call.args[i])) {
        for (size_t k = 0; k < reals->size(); ++k) {
          slot.item = static_cast<int32_t>(k);
          MICA_RETURN_IF_ERROR(Explain(slot, ValuesOf([&](const Tape& tape) {
                                         return std::get<std::vector<double>>(
                                             read(tape))[k];
                                       }),
                                       false));
        }
      } else {
        absl::Status status;
        ForEachTensor(call.args[i], [&](TapeTensorId id) {
          if (status.ok()) status = ExplainConstant(index, id);
        });
        MICA_RETURN_IF_ERROR(status);
      }
    }
    return absl::OkStatus();
  }

  // A number in a tensor's coat, or torch.tensor() of sizes.
  absl::Status ExplainConstant(int32_t call, TapeTensorId id) {
    const TapeTensor& own = last_.tensors[id];
    if (own.origin != TapeOrigin::kConstant || own.host_value >= 0 ||
        !constants_.insert(id).second) {
      return absl::OkStatus();
    }
    const bool is_same = absl::c_all_of(made_.tapes_, [&](const auto& tape) {
      return *tape->tensors[id].bytes == *own.bytes;
    });
    if (is_same) return absl::OkStatus();
    const std::optional<DType> dtype = ParseDType(own.dtype);
    if (!dtype.has_value() || !CanReadElement(*dtype)) {
      return Unlike(absl::StrCat(last_.calls[call].op, ": a constant of ",
                                 own.dtype, " was another one",
                                 LineOf(last_.calls[call])));
    }
    const size_t count =
        own.bytes->size() / static_cast<size_t>(ElementBytes(*dtype));
    for (size_t i = 0; i < count; ++i) {
      SizeSlot slot{.tensor = id, .item = static_cast<int32_t>(i)};
      at_ = call;
      MICA_RETURN_IF_ERROR(
          Explain(slot, ValuesOf([&](const Tape& tape) {
                    return ReadElement(*tape.tensors[id].bytes, *dtype, i);
                  }),
                  *dtype == DType::kI64 || *dtype == DType::kI32));
    }
    return absl::OkStatus();
  }

  absl::Status Explain(SizeSlot slot, const std::vector<double>& values,
                       bool is_whole) {
    const int32_t call = slot.call >= 0 ? slot.call : at_;
    if (slot.call >= 0) {
      slot.terms = FindFormulas(last_, made_.facts_, *made_.groups_, call,
                                slot.arg, slot.item, values);
    }
    if (slot.terms.empty() && AreSame(values)) return absl::OkStatus();
    if (slot.terms.empty()) {
      const bool is_count =
          slot.call >= 0 &&
          IsCount(last_.calls[call], last_.calls[call].arg_names[slot.arg]);
      slot.terms = explainer_.Explain(call, values, is_whole, is_count);
    }
    if (slot.terms.empty()) {
      const TapeCall& made = last_.calls[call];
      return Unlike(
          absl::StrCat(made.op, ": nobody knows where ",
                       slot.call >= 0 ? made.arg_names[slot.arg] : "a constant",
                       " comes from, which was ",
                       absl::StrJoin(values, " and "), LineOf(made)));
    }
    explainer_.NoteUsed(slot.terms);
    made_.slots_.push_back(std::move(slot));
    return absl::OkStatus();
  }

  // A slice that is all of its dim isn't among the calls; of another size it
  // may be a part.
  absl::Status FindSlices() {
    SizeFacts& facts = made_.facts_;
    const std::vector<TensorSizes> sizes = SizesOf(last_);
    SizeNumbers numbers(facts, *made_.groups_, sizes);
    for (const SizeFacts::Use& use : facts.uses) {
      size_t num_parts = 0;
      bool varies = false;
      for (const SizeFacts::Slice& slice : use.slices) {
        if (slice.tensor == kNoTapeTensor) continue;
        varies |= !made_.groups_->of(slice.tensor).empty();
        if (IsAll(slice, numbers, sizes)) {
          made_.slices_.push_back(slice);
        } else {
          ++num_parts;
        }
      }
      size_t num_calls = 0;
      for (int32_t i = use.first_call; i < use.end_call; ++i) {
        num_calls += absl::StartsWith(last_.calls[i].op, "aten.slice") ? 1 : 0;
      }
      if (varies && num_calls < num_parts) {
        return Unlike(absl::StrCat("takes a slice that may be all of a dim",
                                   InParentheses(use.at)));
      }
    }
    return absl::OkStatus();
  }

  // Numbers that Python used are what some call got, or stay as they are.
  absl::Status CheckNumbers() {
    const SizeFacts& facts = made_.facts_;
    if (!facts.unknown.empty()) return Unlike(facts.unknown);
    for (const SizeFacts::Exact& exact : facts.exact) {
      MICA_RETURN_IF_ERROR(KeepNumber(exact.number, exact.at));
    }
    for (size_t i = 0; i < facts.uses.size(); ++i) {
      const SizeFacts::Use& use = facts.uses[i];
      for (const int32_t number : use.numbers) {
        const bool is_used =
            explainer_.IsUsed(static_cast<int>(i), number) || EndsSlice(number);
        if (is_used && !explainer_.IsSame(number)) continue;
        MICA_RETURN_IF_ERROR(KeepNumber(number, use.at));
      }
    }
    absl::c_sort(made_.constant_);
    return absl::OkStatus();
  }

  bool EndsSlice(int32_t number) const {
    return absl::c_any_of(made_.slices_, [&](const SizeFacts::Slice& slice) {
      return slice.stop.id == number;
    });
  }

  // It has to be the same at other sizes.
  absl::Status KeepNumber(int32_t number, const std::string& at) {
    if (explainer_.IsSame(number)) {
      made_.constant_.push_back(number);
      return absl::OkStatus();
    }
    return Unlike(absl::StrCat("uses a size, ", TextOf(number),
                               ", for what isn't followed", InParentheses(at)));
  }

  static std::string InParentheses(const std::string& at) {
    return at.empty() ? "" : absl::StrCat(" (", at, ")");
  }

  std::string TextOf(int32_t number) const {
    return absl::StrCat(explainer_.NumberIn(made_.tapes_.size() - 1, number));
  }

  absl::Status CheckPinned() const {
    for (const auto& [id, at] : made_.facts_.pinned) {
      for (const auto& tape : made_.tapes_) {
        if (tape->tensors[id].sizes == last_.tensors[id].sizes) continue;
        return Unlike(
            absl::StrCat("looks at the sizes of ", NameOf(last_.tensors[id]),
                         " in a way that isn't followed", InParentheses(at)));
      }
    }
    return absl::OkStatus();
  }

  // The walk at each run's sizes, the last first: that one tells how results
  // lie that aren't as the operator says.
  absl::Status CheckRuns() {
    for (size_t run = made_.tapes_.size(); run-- > 0;) {
      const Tape& tape = *made_.tapes_[run];
      std::vector<TensorSizes> inputs;
      for (int i = 0; i < made_.num_args_; ++i) {
        inputs.push_back(mica::SizesOf(tape)[tape.inputs[i]]);
      }
      Walk walk(made_);
      if (run + 1 == made_.tapes_.size()) {
        walk.Learn(&made_.lies_, [this](TapeTensorId id, int32_t call) {
          return ExplainSizes(id, call);
        });
      }
      MICA_RETURN_IF_ERROR(walk.Go(inputs));
      MICA_RETURN_IF_ERROR(Compare(walk, tape));
      MICA_RETURN_IF_ERROR(walk.CheckAlike());
      MICA_RETURN_IF_ERROR(walk.CheckCopies());
      MICA_RETURN_IF_ERROR(made_.CheckComparisons(walk.numbers()));
      MICA_RETURN_IF_ERROR(made_.CheckSlices(walk.numbers(), walk.sizes()));
    }
    return absl::OkStatus();
  }

  static absl::Status Compare(Walk& walk, const Tape& tape) {
    const std::vector<TensorSizes> own = mica::SizesOf(tape);
    for (size_t id = 0; id < own.size(); ++id) {
      const TapeTensor& tensor = tape.tensors[id];
      if (!walk.IsKnown(static_cast<TapeTensorId>(id))) continue;
      if (walk.sizes()[id].sizes == own[id].sizes &&
          walk.sizes()[id].strides == own[id].strides) {
        continue;
      }
      return Unlike(absl::StrCat(
          tensor.call >= 0 ? tape.calls[tensor.call].op : NameOf(tensor),
          ": gives ", ToString(walk.sizes()[id]), " by its rule, ",
          ToString(own[id]), " in the run"));
    }
    for (size_t i = 0; i < tape.calls.size(); ++i) {
      const std::vector<TapeValue>& args = tape.calls[i].args;
      for (size_t k = 0; k < args.size(); ++k) {
        if (!HoldsNumbers(args[k]) || args[k] == walk.args()[i][k]) continue;
        return Unlike(
            absl::StrCat(tape.calls[i].op, ": its numbers don't follow"));
      }
    }
    return absl::OkStatus();
  }

  static bool HoldsNumbers(const TapeValue& arg) {
    return std::holds_alternative<int64_t>(arg) ||
           std::holds_alternative<double>(arg) ||
           std::holds_alternative<std::vector<int64_t>>(arg);
  }

  SizeTemplate& made_;
  const Tape& last_;
  Explainer explainer_;
  absl::flat_hash_set<TapeTensorId> constants_;
  int32_t at_ = 0;  // The call whose constant is looked at.
};

absl::StatusOr<std::shared_ptr<const SizeTemplate>> SizeTemplate::Make(
    std::vector<std::shared_ptr<const Tape>> tapes, SizeFacts facts,
    int num_args, const OpRegistry& ops) {
  // Else nobody may take their numbers for those of the others.
  for (const auto& tape : tapes) {
    MICA_RETURN_IF_ERROR(CheckSameCalls(*tape, *tapes.back()));
  }
  std::shared_ptr<SizeTemplate> made(new SizeTemplate(num_args, ops));
  made->tapes_ = std::move(tapes);
  made->facts_ = std::move(facts);
  made->groups_ = std::make_unique<SizeGroups>(made->tapes_);
  MICA_RETURN_IF_ERROR(Maker(*made).Make());
  return made;
}

bool SizeTemplate::IsOpen(int input, int dim) const {
  const TapeTensorId id = tape().inputs[input];
  return absl::c_any_of(tapes_, [&](const auto& tape) {
    return tape->tensors[id].sizes[dim] != this->tape().tensors[id].sizes[dim];
  });
}

absl::Status SizeTemplate::CheckInputs(
    absl::Span<const TensorSizes> inputs) const {
  if (static_cast<int>(inputs.size()) != num_args_) {
    return absl::InvalidArgumentError("another number of inputs");
  }
  for (int i = 0; i < num_args_; ++i) {
    const TapeTensor& own = tape().tensors[tape().inputs[i]];
    const TensorSizes& given = inputs[i];
    bool fits = given.sizes.size() == own.sizes.size();
    for (size_t d = 0; fits && d < own.sizes.size(); ++d) {
      fits = IsOpen(i, static_cast<int>(d)) ? given.sizes[d] >= 2
                                            : given.sizes[d] == own.sizes[d];
    }
    const Lies& lies = lies_[tape().inputs[i]];
    const std::vector<int64_t> strides =
        !fits || lies.layout == Layout::kFixed
            ? own.strides
            : DenseStrides(given.sizes, lies.order);
    if (fits && given.strides == strides) continue;
    return Unlike(absl::StrCat(own.name, " is ", ToString(given)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tape> SizeTemplate::At(
    absl::Span<const TensorSizes> inputs) const {
  MICA_RETURN_IF_ERROR(CheckInputs(inputs));
  Walk walk(*this);
  MICA_RETURN_IF_ERROR(walk.Go(inputs));
  MICA_RETURN_IF_ERROR(walk.CheckAlike());
  MICA_RETURN_IF_ERROR(walk.CheckCopies());
  SizeNumbers& numbers = walk.numbers();
  const std::vector<TensorSizes> own_sizes = SizesOf(tape());
  SizeNumbers own(facts_, *groups_, own_sizes);
  for (const int32_t number : constant_) {
    if (SameBits(numbers.Of(number), own.Of(number))) continue;
    return Unlike("a number that was the same in all runs isn't");
  }
  MICA_RETURN_IF_ERROR(CheckComparisons(numbers));
  MICA_RETURN_IF_ERROR(CheckSlices(numbers, walk.sizes()));
  return walk.MakeTape();
}

absl::Status SizeTemplate::CheckSlices(
    SizeNumbers& numbers, absl::Span<const TensorSizes> tensors) const {
  for (const SizeFacts::Slice& slice : slices_) {
    if (IsAll(slice, numbers, tensors)) continue;
    return Unlike("a slice isn't all of its dim any more");
  }
  return absl::OkStatus();
}

absl::Status SizeTemplate::CheckComparisons(SizeNumbers& numbers) const {
  for (const SizeFacts::Comparison& comparison : facts_.comparisons) {
    if (OutcomeOf(comparison, numbers) == comparison.outcome) continue;
    return Unlike("a comparison of sizes comes out otherwise");
  }
  return absl::OkStatus();
}

}  // namespace mica
