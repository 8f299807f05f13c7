// How a SizeTemplate is made.

#include <algorithm>
#include <cmath>
#include <cstddef>
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
#include "absl/strings/string_view.h"
#include "analysis/sizes/aligned_run.h"
#include "analysis/sizes/fixed_numbers.h"
#include "analysis/sizes/rounds_of_numbers.h"
#include "analysis/sizes/runs_in_rounds.h"
#include "analysis/sizes/same_calls.h"
#include "analysis/sizes/size_template.h"
#include "analysis/sizes/size_walk.h"
#include "framework/base/same_bits.h"
#include "framework/base/status.h"
#include "framework/tensor/dtype.h"

namespace mica {
namespace {

int64_t NumElements(const TapeTensor& tensor) {
  return absl::c_accumulate(tensor.sizes, int64_t{1},
                            [](int64_t a, int64_t b) { return a * b; });
}

std::string NameOf(const TapeTensor& tensor) {
  return tensor.name.empty() ? "a tensor" : tensor.name;
}

// Whether C++ code passes sizes and numbers of elements by this name. Where a
// dim is cut, by a start and an end, Python says.
bool IsCount(const TapeCall& call, absl::string_view arg_name) {
  static constexpr absl::string_view kNames[] = {
      "size", "sizes", "shape", "repeats", "N", "C", "HxW", "normalized_shape"};
  // Of autograd's formulas.
  static constexpr absl::string_view kBackwardNames[] = {
      "input_sizes", "input_size", "self_sizes", "output_size",
      "other",       "value",      "bias_sizes", "num_weights"};
  if (call.op == "aten._reshape_alias") return true;
  // What a mean is taken over, as cross_entropy() has it.
  if (call.op == "aten.div.Scalar" && arg_name == "other") return true;
  if (absl::c_linear_search(kNames, arg_name)) return true;
  const bool is_backward =
      IsBackward(call) || absl::StrContains(call.op, "backward");
  return is_backward && absl::c_linear_search(kBackwardNames, arg_name);
}

bool IsNumberList(const TapeValue& arg) {
  return std::holds_alternative<std::vector<int64_t>>(arg) ||
         std::holds_alternative<std::vector<double>>(arg);
}

bool HoldsWholeNumbers(const TapeValue& arg) {
  return std::holds_alternative<int64_t>(arg) ||
         std::holds_alternative<std::vector<int64_t>>(arg);
}

// Empty of what holds none.
std::vector<double> NumbersOf(const TapeValue& arg) {
  if (const auto* whole = std::get_if<int64_t>(&arg)) {
    return {static_cast<double>(*whole)};
  }
  if (const auto* real = std::get_if<double>(&arg)) return {*real};
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&arg)) {
    return {ints->begin(), ints->end()};
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&arg)) {
    return *reals;
  }
  return {};
}

}  // namespace

// Makes a template of runs that made the same calls, in order: inputs that lie
// as before, a term for each number, and a walk at each run's own sizes that
// gives just what that run did.
class SizeTemplate::Maker {
 public:
  Maker(SizeTemplate& made, std::vector<RunsInRounds::Recorded> recorded,
        std::vector<std::vector<int32_t>> counts)
      : made_(made),
        last_(made.tape()),
        recorded_(std::move(recorded)),
        counts_(std::move(counts)),
        explainer_(made.runs_, made.facts_, *made.groups_, made.num_args_,
                   [this](size_t run, int32_t number) {
                     return NumberOfRun(run, number);
                   }) {}

  // `sizes`: by run.
  absl::Status Make(absl::Span<const NumbersThatAreSizes> sizes) {
    MICA_RETURN_IF_ERROR(CheckSizes(sizes));
    MICA_RETURN_IF_ERROR(CheckStates());
    MICA_RETURN_IF_ERROR(FindOpen());
    MICA_RETURN_IF_ERROR(CheckShared());
    MICA_RETURN_IF_ERROR(FindAliases());
    MICA_RETURN_IF_ERROR(FindRoots());
    for (size_t i = 0; i < last_.calls.size(); ++i) {
      MICA_RETURN_IF_ERROR(ExplainCall(static_cast<int32_t>(i)));
    }
    MICA_RETURN_IF_ERROR(
        CheckFixedNumbers(last_, made_.facts_, *made_.groups_, made_.slots_));
    MICA_RETURN_IF_ERROR(CheckFixedProducts(last_, *made_.groups_));
    MICA_RETURN_IF_ERROR(FindSlices());
    MICA_RETURN_IF_ERROR(CheckNumbers());
    MICA_RETURN_IF_ERROR(CheckPinned());
    MICA_RETURN_IF_ERROR(CheckRuns());
    return CheckRecorded();
  }

 private:
  std::vector<double> ValuesOf(
      const std::function<double(const Tape&)>& read) const {
    std::vector<double> values;
    for (const SizedTape& run : made_.runs_) values.push_back(read(*run.tape));
    return values;
  }
  // Of those that are known.
  static bool AreSame(absl::Span<const double> values) {
    return absl::c_all_of(values, [&](double value) {
      return std::isnan(value) || SameBits(value, values.back());
    });
  }

  // What numbers are computed of is as the sizes say.
  absl::Status CheckSizes(absl::Span<const NumbersThatAreSizes> sizes) const {
    const auto num_numbers = static_cast<int32_t>(made_.facts_.numbers.size());
    for (size_t run = 0; run < sizes.size(); ++run) {
      for (const auto& [value, size] : sizes[run]) {
        if (size < num_numbers &&
            SameBits(explainer_.NumberIn(run, size), value)) {
          continue;
        }
        return Unlike("computes with a number that doesn't follow from sizes");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckStates() {
    for (const TapeTensorId id : last_.states) {
      for (const SizedTape& run : made_.runs_) {
        const TapeTensor& tensor = run.tape->tensors[id];
        if (tensor.sizes == last_.tensors[id].sizes &&
            tensor.strides == last_.tensors[id].strides) {
          continue;
        }
        return Unlike(absl::StrCat(tensor.name, ", of the state, was another"));
      }
    }
    return absl::OkStatus();
  }

  // How a tensor that isn't computed lies in all runs; one that `is_given`, an
  // argument, may be a part of another whose sizes nobody knows.
  absl::StatusOr<Lies> FindLayout(TapeTensorId id, bool is_given) const {
    const TapeTensor& own = last_.tensors[id];
    Lies lies{.layout = Layout::kDense,
              .order = StrideOrder(own.sizes, own.strides)};
    const auto gaps = GapsOf(own.sizes, own.strides);
    bool is_dense = true, is_fixed = true;
    bool is_gapped = is_given && gaps.has_value();
    for (const SizedTape& run : made_.runs_) {
      const TapeTensor& tensor = run.tape->tensors[id];
      is_dense &= tensor.strides == DenseStrides(tensor.sizes, lies.order);
      is_fixed &= tensor.strides == own.strides;
      is_gapped &= StrideOrder(tensor.sizes, tensor.strides) == lies.order &&
                   GapsOf(tensor.sizes, tensor.strides) == gaps;
    }
    if (is_dense) return lies;
    if (is_gapped) lies.layout = Layout::kGapped;
    if (is_gapped) return lies;
    if (is_fixed) return Lies{.layout = Layout::kFixed};
    return Unlike(absl::StrCat("the strides of ", NameOf(own),
                               " differ in an unknown way"));
  }

  absl::Status FindOpen() {
    made_.lies_.resize(last_.tensors.size());
    bool is_any = false;
    for (size_t i = 0; i < last_.inputs.size(); ++i) {
      const TapeTensorId id = last_.inputs[i];
      const bool is_given = static_cast<int>(i) < made_.num_args_;
      MICA_ASSIGN_OR_RETURN(made_.lies_[id], FindLayout(id, is_given));
      for (size_t d = 0; d < last_.tensors[id].sizes.size(); ++d) {
        const std::vector<double> values = SizesIn(id, static_cast<int>(d));
        if (AreSame(values)) continue;
        is_any |= is_given;
        // Where there is one, or none, operators do other things.
        if (absl::c_any_of(values, [](double size) { return size < 2; })) {
          return Unlike(absl::StrCat("a size of ", NameOf(last_.tensors[id]),
                                     " was 0 or 1"));
        }
      }
    }
    for (size_t i = 0; i < made_.facts_.given.size(); ++i) {
      is_any |= made_.IsGivenOpen(static_cast<int>(i));
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

  // Where views begin of memory whose size varies, the caller says. That
  // matters for what is written, or counted from the start of the memory.
  absl::Status CheckShared() const {
    absl::flat_hash_map<int32_t, int> uses;
    for (const auto* ids : {&last_.inputs, &last_.states}) {
      for (const TapeTensorId id : *ids) ++uses[last_.tensors[id].storage];
    }
    const absl::flat_hash_set<int32_t> kept = KeptStorages();
    for (size_t i = 0; i < last_.inputs.size(); ++i) {
      const TapeTensor& tensor = last_.tensors[last_.inputs[i]];
      if (!made_.IsOpen(static_cast<int>(i)) || uses[tensor.storage] == 1)
        continue;
      if (kept.contains(tensor.storage)) continue;
      return Unlike(absl::StrCat(NameOf(tensor), " shares its memory"));
    }
    return absl::OkStatus();
  }

  // The memory of arguments alone that is only read, from where they begin.
  absl::flat_hash_set<int32_t> KeptStorages() const {
    absl::flat_hash_set<int32_t> kept;
    if (absl::c_any_of(last_.calls, CountsFromStorage)) return kept;
    for (int i = 0; i < made_.num_args_; ++i) {
      kept.insert(last_.tensors[last_.inputs[i]].storage);
    }
    for (size_t i = made_.num_args_; i < last_.inputs.size(); ++i) {
      kept.erase(last_.tensors[last_.inputs[i]].storage);
    }
    for (const TapeTensorId id : last_.states) {
      kept.erase(last_.tensors[id].storage);
    }
    for (const TapeCall& call : last_.calls) {
      for (const int32_t arg : call.mutated_args) {
        ForEachTensor(call.args[arg], [&](TapeTensorId id) {
          kept.erase(last_.tensors[id].storage);
        });
      }
    }
    return kept;
  }

  absl::Status FindAliases() {
    for (size_t t = 0; t < last_.tensors.size(); ++t) {
      const auto id = static_cast<TapeTensorId>(t);
      if (last_.tensors[id].origin != TapeOrigin::kAlias) continue;
      MICA_ASSIGN_OR_RETURN(made_.lies_[id],
                            FindLayout(id, /*is_given=*/false));
      MICA_ASSIGN_OR_RETURN(made_.aliases_[id], FindAlias(id));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Alias> FindAlias(TapeTensorId id) {
    bool is_whole = true, is_fixed = true, is_all = true;
    for (const SizedTape& run : made_.runs_) {
      const TapeTensor& own = run.tape->tensors[id];
      const TapeTensor& base = run.tape->tensors[own.base];
      is_whole &= own.sizes == base.sizes && own.offset == base.offset;
      is_fixed &= own.sizes == last_.tensors[id].sizes &&
                  own.strides == last_.tensors[id].strides;
      is_all &=
          NumElements(own) == NumElements(base) && own.offset == base.offset;
    }
    if (is_fixed) return Alias{.form = Alias::kFixed};
    const std::vector<int> order = OrderOfDims(id);
    if (!order.empty()) return Alias{.form = Alias::kOrdered, .order = order};
    if (is_whole) return Alias{.form = Alias::kWhole};
    if (is_all && made_.lies_[id].layout == Layout::kDense &&
        ExplainSizes(id, FirstUse(id)).ok()) {
      return Alias{.form = Alias::kExplained};
    }
    return Alias{.form = Alias::kUnknown};
  }

  // The dims of an alias's base in the order of its own; empty if it isn't
  // these, or they could be in one order or another.
  std::vector<int> OrderOfDims(TapeTensorId id) const {
    constexpr size_t kMaxDims = 5;
    const size_t rank = last_.tensors[id].sizes.size();
    if (rank > kMaxDims) return {};
    const auto fits = [&](absl::Span<const int> order) {
      return absl::c_all_of(made_.runs_, [&](const SizedTape& run) {
        const TapeTensor& own = run.tape->tensors[id];
        const TapeTensor& base = run.tape->tensors[own.base];
        if (base.sizes.size() != rank || base.offset != own.offset)
          return false;
        for (size_t i = 0; i < rank; ++i) {
          if (own.sizes[i] != base.sizes[order[i]] ||
              own.strides[i] != base.strides[order[i]]) {
            return false;
          }
        }
        return true;
      });
    };
    std::vector<int> order(rank), found;
    std::iota(order.begin(), order.end(), 0);
    do {
      if (!fits(order)) continue;
      if (!found.empty()) return {};
      found = order;
    } while (std::next_permutation(order.begin(), order.end()));
    return found;
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
      const bool is_list = IsNumberList(call.args[i]);
      const size_t count = NumbersOf(call.args[i]).size();
      for (size_t k = 0; k < count; ++k) {
        const SizeSlot slot{.call = index,
                            .arg = arg,
                            .item = is_list ? static_cast<int32_t>(k) : -1};
        const auto read = [&](int32_t of, const Tape& tape) {
          return NumbersOf(tape.calls[of].args[arg])[k];
        };
        const int32_t before = CallInRoundBefore(index);
        const bool moves =
            before >= 0 && !SameBits(read(index, last_), read(before, last_));
        std::vector<double> values =
            ValuesOf([&](const Tape& tape) { return read(index, tape); });
        const Rounds::Place place = PlaceOfCall(index);
        Forget(
            place,
            [&](size_t run, const Rounds::Place& at) {
              const int32_t other = CallLike(index, at);
              return other < 0 ? SizeFacts::kUnknown
                               : read(other, *made_.runs_[run].tape);
            },
            values);
        MICA_RETURN_IF_ERROR(
            Explain(slot, values, HoldsWholeNumbers(call.args[i]), moves));
      }
      absl::Status status;
      ForEachTensor(call.args[i], [&](TapeTensorId id) {
        if (status.ok()) status = ExplainConstant(index, id);
      });
      MICA_RETURN_IF_ERROR(status);
      if (std::holds_alternative<TapeTensorList>(call.args[i])) {
        MICA_RETURN_IF_ERROR(ExplainLength(index, arg));
      }
    }
    return absl::OkStatus();
  }

  // Of a list of tensors, which differs if one is repeated.
  absl::Status ExplainLength(int32_t index, int32_t arg) {
    const std::vector<double> lengths = ValuesOf([&](const Tape& tape) {
      const TapeValue& value = tape.calls[index].args[arg];
      return static_cast<double>(std::get<TapeTensorList>(value).ids.size());
    });
    if (AreSame(lengths)) return absl::OkStatus();
    SizeSlot slot{.call = index, .arg = arg, .item = SizeSlot::kLength};
    slot.terms = explainer_.Explain(index, lengths, /*is_whole=*/true,
                                    /*is_count=*/true);
    if (slot.terms.empty()) {
      return Unlike(absl::StrCat(last_.calls[index].op,
                                 ": nobody knows how many tensors it gets",
                                 LineOf(last_.calls[index])));
    }
    explainer_.NoteUsed(slot.terms);
    made_.slots_.push_back(std::move(slot));
    return absl::OkStatus();
  }

  // A number in a tensor's coat, or torch.tensor() of sizes.
  absl::Status ExplainConstant(int32_t call, TapeTensorId id) {
    const TapeTensor& own = last_.tensors[id];
    if (own.origin != TapeOrigin::kConstant || !own.numbers.empty() ||
        !constants_.insert(id).second) {
      return absl::OkStatus();
    }
    const bool is_same = absl::c_all_of(made_.runs_, [&](const SizedTape& run) {
      return *run.tape->tensors[id].bytes == *own.bytes;
    });
    const TapeTensorId before = InRoundBefore(id);
    const bool is_steady =
        before == kNoTapeTensor || last_.tensors[before].bytes == nullptr ||
        last_.tensors[before].bytes->size() != own.bytes->size() ||
        *last_.tensors[before].bytes == *own.bytes;
    if (is_same && is_steady) return absl::OkStatus();
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
      const auto read = [&](TapeTensorId of, const Tape& tape) {
        return ReadElement(*tape.tensors[of].bytes, *dtype, i);
      };
      std::vector<double> values =
          ValuesOf([&](const Tape& tape) { return read(id, tape); });
      if (made_.rounds_.num_loops() > 0) {
        Forget(
            made_.rounds_.Of(id),
            [&](size_t run, const Rounds::Place& at) {
              const TapeTensorId other = made_.rounds_.At(at);
              const bool is_like =
                  other != kNoTapeTensor &&
                  last_.tensors[other].bytes != nullptr &&
                  last_.tensors[other].bytes->size() == own.bytes->size();
              return is_like ? read(other, *made_.runs_[run].tape)
                             : SizeFacts::kUnknown;
            },
            values);
      }
      MICA_RETURN_IF_ERROR(
          Explain(slot, values, *dtype == DType::kI64 || *dtype == DType::kI32,
                  !is_steady));
    }
    return absl::OkStatus();
  }

  // `moves`: it is another one in each round of a loop.
  absl::Status Explain(SizeSlot slot, const std::vector<double>& values,
                       bool is_whole, bool moves) {
    const int32_t call = slot.call >= 0 ? slot.call : at_;
    const bool is_known =
        !absl::c_any_of(values, [](double value) { return std::isnan(value); });
    if (slot.call >= 0 && is_known) {
      slot.terms = FindFormulas(last_, made_.facts_, *made_.groups_, call,
                                slot.arg, slot.item, values);
    }
    if (slot.terms.empty() && AreSame(values) && !moves) {
      return absl::OkStatus();
    }
    if (slot.terms.empty()) {
      const bool is_count =
          slot.call >= 0 && is_known &&
          IsCount(last_.calls[call], last_.calls[call].arg_names[slot.arg]);
      slot.terms = explainer_.Explain(call, values, is_whole, is_count);
      if (moves) DropOtherLoops(PlaceOfCall(call).loop, slot.terms);
    }
    // Then it is as it was in the rounds that all runs made.
    if (slot.terms.empty() && AreSame(values) && is_known) {
      return absl::OkStatus();
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

  // What differs from round to round is no number of another loop's.
  void DropOtherLoops(int32_t loop, std::vector<SizeTerm>& terms) const {
    terms.erase(std::remove_if(terms.begin(), terms.end(),
                               [&](const SizeTerm& term) {
                                 if (term.number < 0) return false;
                                 const int32_t of =
                                     places_.PlaceOf(term.number).loop;
                                 return of >= 0 && of != loop;
                               }),
                terms.end());
  }

  // A slice that is all of its dim isn't among the calls; of another size it
  // may be a part.
  absl::Status FindSlices() {
    SizeFacts& facts = made_.facts_;
    const std::vector<TensorSizes> sizes = SizesOf(last_);
    SizeNumbers numbers(facts, *made_.groups_, sizes, made_.runs_.back().given);
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
        const bool is_used = explainer_.IsUsed(static_cast<int>(i), number) ||
                             BoundsSlice(number);
        if (is_used && (!explainer_.IsSame(number) || Moves(number))) continue;
        MICA_RETURN_IF_ERROR(KeepNumber(number, use.at));
      }
    }
    return absl::OkStatus();
  }

  bool BoundsSlice(int32_t number) const {
    return absl::c_any_of(made_.slices_, [&](const SizeFacts::Slice& slice) {
      return slice.start.id == number || slice.stop.id == number;
    });
  }

  // It has to be the same at other sizes.
  absl::Status KeepNumber(int32_t number, const std::string& at) {
    if (explainer_.IsSame(number)) {
      made_.constant_.emplace_back(number, OfLastRun(number));
      return absl::OkStatus();
    }
    return Unlike(absl::StrCat("uses a size, ", OfLastRun(number),
                               ", for what isn't followed", InParentheses(at)));
  }

  Rounds::Place PlaceOfCall(int32_t call) const {
    return made_.rounds_.num_loops() == 0 ? Rounds::Place{}
                                          : made_.rounds_.OfCall(call);
  }
  // Runs that didn't make the round at `place` have the numbers of their last
  // one, which nobody knows there if they were others in the one before.
  void Forget(
      Rounds::Place place,
      const std::function<double(size_t run, const Rounds::Place& at)>& read,
      std::vector<double>& values) const {
    if (place.loop < 0) return;
    const int32_t round = place.round;
    for (size_t run = 0; run < values.size(); ++run) {
      const int32_t count = counts_[run][place.loop];
      if (round < count) continue;
      place.round = count - 1;
      const double last = read(run, place);
      place.round = count - 2;
      if (count < 2 || !SameBits(read(run, place), last) || std::isnan(last)) {
        values[run] = SizeFacts::kUnknown;
      }
    }
  }

  // In a round of a loop, what stands in its place in the one before.
  TapeTensorId InRoundBefore(TapeTensorId id) const {
    if (made_.rounds_.num_loops() == 0) return kNoTapeTensor;
    Rounds::Place place = made_.rounds_.Of(id);
    if (place.loop < 0) return kNoTapeTensor;
    --place.round;
    return made_.rounds_.At(place);
  }
  int32_t CallInRoundBefore(int32_t call) const {
    Rounds::Place place = PlaceOfCall(call);
    if (place.loop < 0 || place.round == 0) return -1;
    --place.round;
    return CallLike(call, place);
  }
  // The call at a place, if it is like this one; else -1: that round did other
  // things.
  int32_t CallLike(int32_t call, const Rounds::Place& place) const {
    const RoundBegins& begins = made_.rounds_.begins(place.loop);
    const int32_t other = made_.rounds_.CallAt(place);
    return other < begins[place.round + 1] &&
                   last_.calls[other].op == last_.calls[call].op &&
                   HaveSameForm(last_.calls[other], last_.calls[call])
               ? other
               : -1;
  }
  static bool HaveSameForm(const TapeCall& a, const TapeCall& b) {
    if (a.args.size() != b.args.size()) return false;
    for (size_t i = 0; i < a.args.size(); ++i) {
      if (NumbersOf(a.args[i]).size() != NumbersOf(b.args[i]).size()) {
        return false;
      }
    }
    return true;
  }
  // Whether a number of a loop's round differs from that of the one before.
  bool Moves(int32_t number) const {
    if (made_.rounds_.num_loops() == 0) return false;
    Rounds::Place place = places_.PlaceOf(number);
    if (place.loop < 0 || place.round == 0) return false;
    --place.round;
    const int32_t before = places_.OldAt(place);
    return before < 0 || !SameBits(OfLastRun(before), OfLastRun(number));
  }

  // Of the last round of a loop, which what comes after that uses: the number
  // of the run's own last round.
  int32_t NumberOfRun(size_t run, int32_t number) const {
    if (made_.rounds_.num_loops() == 0) return number;
    Rounds::Place place = places_.PlaceOf(number);
    if (place.loop < 0 || place.round + 1 != made_.rounds_.count(place.loop)) {
      return number;
    }
    place.round = counts_[run][place.loop] - 1;
    const int32_t own = places_.OldAt(place);
    const auto& numbers = made_.facts_.numbers;
    return own >= 0 && numbers[own].op == numbers[number].op ? own : number;
  }

  static std::string InParentheses(const std::string& at) {
    return at.empty() ? "" : absl::StrCat(" (", at, ")");
  }

  double OfLastRun(int32_t number) const {
    return explainer_.NumberIn(made_.runs_.size() - 1, number);
  }

  absl::Status CheckPinned() const {
    for (const auto& [id, at] : made_.facts_.pinned) {
      for (const SizedTape& run : made_.runs_) {
        if (run.tape->tensors[id].sizes == last_.tensors[id].sizes) continue;
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
    for (size_t run = made_.runs_.size(); run-- > 0;) {
      const bool is_last = run + 1 == made_.runs_.size();
      // Those that differ in rounds are no runs as they are.
      if (!is_last && !recorded_.empty()) break;
      const Tape& tape = *made_.runs_[run].tape;
      const std::vector<TensorSizes> sizes = SizesOf(tape);
      std::vector<TensorSizes> inputs;
      for (int i = 0; i < made_.num_args_; ++i) {
        inputs.push_back(sizes[tape.inputs[i]]);
      }
      Walk walk(made_, made_.runs_[run].given);
      if (is_last) {
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

  // Runs of other numbers of rounds, as they were: they tell of which round is
  // what comes after the loop.
  absl::Status CheckRecorded() {
    for (const auto& [run, rounds] : recorded_) {
      MICA_ASSIGN_OR_RETURN(const auto other,
                            made_.WithCounts(rounds.counts()));
      MICA_ASSIGN_OR_RETURN(const AlignedRun aligned,
                            AlignRun(*run.tape, rounds, other->tape(),
                                     RoundsOf(other->tape(), other->facts_)));
      std::vector<TensorSizes> inputs;
      for (int i = 0; i < made_.num_args_; ++i) {
        const TapeTensor& input = run.tape->tensors[run.tape->inputs[i]];
        inputs.push_back({input.sizes, input.strides, input.offset});
      }
      Walk walk(*other, run.given);
      MICA_RETURN_IF_ERROR(walk.Go(inputs));
      MICA_RETURN_IF_ERROR(Compare(walk, aligned.tape));
      MICA_RETURN_IF_ERROR(walk.CheckCopies());
      MICA_RETURN_IF_ERROR(other->CheckComparisons(walk.numbers()));
      MICA_RETURN_IF_ERROR(other->CheckSlices(walk.numbers(), walk.sizes()));
      MICA_RETURN_IF_ERROR(other->CheckCounts(walk.numbers(), walk.sizes()));
    }
    return absl::OkStatus();
  }

  absl::Status Compare(Walk& walk, const Tape& tape) const {
    const std::vector<TensorSizes> own = SizesOf(tape);
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
        TapeValue walked = walk.args()[i][k];
        const std::vector<double> numbers = NumbersOf(args[k]);
        // A size, of the tape that knows it alone.
        const auto* number = std::get_if<TapeHostRef>(&walked);
        if (number != nullptr && !numbers.empty()) {
          walked = walk.numbers().Of(last_.host_values[number->id].size);
        }
        const bool is_list = std::holds_alternative<TapeTensorList>(args[k]);
        // NaN is what it was, too.
        if (numbers.empty() ? !is_list || args[k] == walked
                            : absl::c_equal(numbers, NumbersOf(walked),
                                            [](double one, double other) {
                                              return SameBits(one, other);
                                            })) {
          continue;
        }
        return Unlike(
            absl::StrCat(tape.calls[i].op, ": its numbers don't follow"));
      }
    }
    const auto num_numbers = static_cast<int32_t>(made_.facts_.numbers.size());
    for (const int32_t id : tape.host_results) {
      const TapeHostValue& number = tape.host_values[id];
      if (number.size < 0 ||
          (number.size < num_numbers &&
           SameBits(walk.numbers().Of(number.size), number.value))) {
        continue;
      }
      return Unlike("a number of the result doesn't follow");
    }
    return absl::OkStatus();
  }

  SizeTemplate& made_;
  const Tape& last_;
  const std::vector<RunsInRounds::Recorded> recorded_;
  const std::vector<std::vector<int32_t>> counts_;
  const NumbersInRounds places_{made_.facts_, made_.rounds_.counts()};
  Explainer explainer_;
  absl::flat_hash_set<TapeTensorId> constants_;
  int32_t at_ = 0;  // The call whose constant is looked at.
};

absl::StatusOr<std::shared_ptr<const SizeTemplate>> SizeTemplate::Make(
    std::vector<SizedTape> runs, SizeFacts facts, int num_args,
    const OpRegistry& ops) {
  for (const SizedTape& run : runs) {
    if (run.given.size() == facts.given.size()) continue;
    return Unlike("the runs were given other numbers");
  }
  std::shared_ptr<SizeTemplate> made(new SizeTemplate(num_args, ops));
  made->recorded_ = runs;
  MICA_ASSIGN_OR_RETURN(RunsInRounds aligned,
                        AlignRuns(std::move(runs), std::move(facts)));
  // Else nobody may take their numbers for those of the others.
  std::vector<NumbersThatAreSizes> sizes;
  for (const SizedTape& run : aligned.runs) {
    MICA_RETURN_IF_ERROR(CheckSameCalls(*run.tape, *aligned.runs.back().tape,
                                        &sizes.emplace_back()));
  }
  made->runs_ = std::move(aligned.runs);
  made->facts_ = std::move(aligned.facts);
  made->rounds_ = std::move(aligned.rounds);
  made->groups_ = std::make_unique<SizeGroups>(made->runs_);
  MICA_RETURN_IF_ERROR(
      Maker(*made, std::move(aligned.recorded), std::move(aligned.counts))
          .Make(sizes));
  return made;
}

}  // namespace mica
