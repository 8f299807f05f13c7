#include "analysis/sizes/fixed_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mica {
namespace {

// Which dim of the call's first tensor an argument is about.
enum class About {
  kDim,      // That of the argument "dim".
  kDims,     // Items, those of the list "dims".
  kSpatial,  // Items, those behind batch and channels.
  kPadded,   // Pairs of items, from the last one on.
  kLast,     // The last of the list "dim".
  kAny,      // All of them.
  kNone,     // None: it makes a tensor.
};

struct Cut {
  absl::string_view op;  // What it begins with.
  absl::string_view arg;
  About about;
};

constexpr Cut kCuts[] = {
    {"aten.split", "split_size", About::kDim},
    {"aten.split", "split_sizes", About::kDim},
    {"aten.unsafe_split", "split_size", About::kDim},
    {"aten.unsafe_split", "split_sizes", About::kDim},
    {"aten.slice", "start", About::kDim},
    {"aten.slice", "end", About::kDim},
    {"aten.select", "index", About::kDim},
    {"aten.roll", "shifts", About::kDims},
    {"aten.upsample", "output_size", About::kSpatial},
    {"aten._upsample", "output_size", About::kSpatial},
    {"aten.constant_pad_nd", "pad", About::kPadded},
    {"aten._fft_c2r", "last_dim_size", About::kLast},
    {"aten.arange", "start", About::kNone},
    {"aten.arange", "end", About::kNone},
    {"aten.as_strided", "size", About::kAny},
    {"aten.as_strided", "stride", About::kAny},
    {"aten.as_strided", "storage_offset", About::kAny},
};

std::vector<int64_t> IntsOf(const TapeValue* arg) {
  if (arg == nullptr) return {};
  if (const auto* one = std::get_if<int64_t>(arg)) return {*one};
  if (const auto* list = std::get_if<std::vector<int64_t>>(arg)) return *list;
  return {};
}

// What ATen's composite operators make of sizes.
class Formulas {
 public:
  Formulas(const Tape& tape, const SizeFacts& facts, const SizeGroups& groups,
           int32_t call, int32_t arg, int32_t item)
      : tape_(tape),
        facts_(facts),
        groups_(groups),
        index_(call),
        call_(tape.calls[call]),
        item_(item),
        arg_name_(call_.arg_names[arg]) {
    const auto* ref = call_.args.empty()
                          ? nullptr
                          : std::get_if<TapeTensorRef>(&call_.args[0]);
    if (ref == nullptr || ref->id == kNoTapeTensor) return;
    tensor_ = ref->id;
  }

  // Those that may apply to a number that was another one in some runs, or the
  // same in all.
  std::vector<SizeTerm> Find(bool differs) const {
    if (tensor_ == kNoTapeTensor) return {};
    const bool is_upsampling =
        (absl::StartsWith(call_.op, "aten.upsample_") ||
         absl::StartsWith(call_.op, "aten._upsample_")) &&
        !absl::StrContains(call_.op, "backward");
    if (is_upsampling && arg_name_ == "output_size") return OfScale();
    const bool splits = call_.op == "aten.split.Tensor" ||
                        call_.op == "aten.unsafe_split.Tensor";
    if (splits && arg_name_ == "split_size") return OfChunks();
    const bool slices = call_.op == "aten.slice.Tensor";
    if (slices && arg_name_ == "end") return OfDifference();
    const bool spaces =
        call_.op == "aten.mul.Scalar" && IsMadeBy("aten.linspace");
    if (spaces && arg_name_ == "other") return OfSpaces();
    const bool scales =
        differs && call_.op == "aten.mul.Scalar" && IsBackward(call_);
    if (scales && arg_name_ == "other") return OfVariances();
    return {};
  }

 private:
  std::optional<SizeGroup> GroupOf(TapeTensorId tensor, int64_t dim) const {
    if (dim < 0) {
      dim += static_cast<int64_t>(tape_.tensors[tensor].sizes.size());
    }
    for (const auto& [own, group] : groups_.of(tensor)) {
      if (own == dim) return group;
    }
    return std::nullopt;
  }
  std::optional<SizeGroup> GroupOfDim() const {
    const std::vector<int64_t> dim = IntsOf(FindArgument(call_, "dim"));
    return GroupOf(tensor_, dim.empty() ? 0 : dim[0]);
  }

  std::vector<SizeTerm> OfScale() const {
    static constexpr absl::string_view kNames[3][3] = {
        {"scales", "", ""},
        {"scales_h", "scales_w", ""},
        {"scales_d", "scales_h", "scales_w"}};
    const size_t count = IntsOf(FindArgument(call_, "output_size")).size();
    if (count == 0 || count > 3 || item_ < 0) return {};
    const TapeValue* arg = FindArgument(call_, kNames[count - 1][item_]);
    const auto* scale = arg == nullptr ? nullptr : std::get_if<double>(arg);
    const std::optional<SizeGroup> group = GroupOf(tensor_, item_ + 2);
    if (scale == nullptr || *scale == 0 || !group.has_value()) return {};
    return {{.groups = {*group}, .scale = *scale}};
  }

  std::vector<SizeTerm> OfChunks() const {
    const std::optional<SizeGroup> group = GroupOfDim();
    std::vector<SizeTerm> terms;
    for (const SizeFacts::Use* use : UsesBy("chunk")) {
      for (const int64_t parts : use->constants) {
        if (parts < 1 || !group.has_value()) continue;
        terms.push_back({.groups = {*group}, .parts = parts});
      }
    }
    return terms;
  }

  std::vector<SizeTerm> OfDifference() const {
    const std::optional<SizeGroup> group = GroupOfDim();
    if (UsesBy("diff").empty() || !group.has_value()) return {};
    return {{.groups = {*group}}, {.groups = {*group}, .less = 1}};
  }

  bool IsMadeBy(absl::string_view op) const {
    const int32_t call = tape_.tensors[tensor_].call;
    return call >= 0 && tape_.calls[call].op == op;
  }

  // Of affine_grid(): how often a row of n numbers goes from one to the next.
  std::vector<SizeTerm> OfSpaces() const {
    const std::optional<SizeGroup> group = GroupOf(tensor_, 0);
    if (!group.has_value()) return {};
    return {{.groups = {*group}, .less = 1}};
  }

  // Of a variance or a deviation of n numbers: 2 / (n - correction).
  std::vector<SizeTerm> OfVariances() const {
    std::vector<SizeTerm> terms;
    for (int32_t i = 0; i < index_; ++i) {
      const TapeCall& call = tape_.calls[i];
      const bool is_one = absl::StartsWith(call.op, "aten.var") ||
                          absl::StartsWith(call.op, "aten.std");
      const auto* ref = !is_one || call.args.empty()
                            ? nullptr
                            : std::get_if<TapeTensorRef>(&call.args[0]);
      if (ref == nullptr || ref->id == kNoTapeTensor) continue;
      std::optional<SizeTerm> term = CountOf(call, ref->id);
      if (!term.has_value() || term->groups.empty()) continue;
      term->by_size = 2;
      terms.push_back(*std::move(term));
    }
    return terms;
  }

  // How many elements a reduction of `tensor` makes one, less its correction.
  std::optional<SizeTerm> CountOf(const TapeCall& call,
                                  TapeTensorId tensor) const {
    const std::vector<int64_t>& sizes = tape_.tensors[tensor].sizes;
    std::vector<int64_t> dims = IntsOf(FindArgument(call, "dim"));
    if (dims.empty()) {
      dims.resize(sizes.size());
      absl::c_iota(dims, 0);
    }
    SizeTerm term;
    for (int64_t dim : dims) {
      if (dim < 0) dim += static_cast<int64_t>(sizes.size());
      if (const auto group = GroupOf(tensor, dim)) {
        term.groups.push_back(*group);
      } else {
        term.numerator *= sizes[dim];
      }
    }
    const TapeValue* correction = FindArgument(call, "correction");
    const TapeValue* unbiased = FindArgument(call, "unbiased");
    term.less = 1;
    if (unbiased != nullptr) {
      term.less = std::get<bool>(*unbiased) ? 1 : 0;
    } else if (correction != nullptr &&
               !std::holds_alternative<std::monostate>(*correction)) {
      const std::vector<int64_t> whole = IntsOf(correction);
      if (whole.size() != 1) return std::nullopt;
      term.less = whole[0];
    }
    return term;
  }

  std::vector<const SizeFacts::Use*> UsesBy(absl::string_view called) const {
    std::vector<const SizeFacts::Use*> uses;
    for (const SizeFacts::Use& use : facts_.uses) {
      if (index_ < use.first_call || index_ >= use.end_call) continue;
      if (use.called == called) uses.push_back(&use);
    }
    return uses;
  }

  const Tape& tape_;
  const SizeFacts& facts_;
  const SizeGroups& groups_;
  const int32_t index_;
  const TapeCall& call_;
  const int32_t item_;
  const std::string& arg_name_;
  TapeTensorId tensor_ = kNoTapeTensor;
};

class FixedNumbers {
 public:
  FixedNumbers(const Tape& tape, const SizeFacts& facts,
               const SizeGroups& groups, absl::Span<const SizeSlot> slots)
      : tape_(tape), facts_(facts), groups_(groups) {
    for (const SizeSlot& slot : slots) {
      if (slot.call >= 0) followed_.insert({slot.call, slot.arg, slot.item});
    }
    for (const SizeFacts::Use& use : facts.uses) {
      for (const int64_t constant : use.constants) {
        passed_.insert(constant);
        passed_.insert(-constant);
      }
    }
    for (const TapeTensor& tensor : tape.tensors) {
      // And the products of dims in a row, as strides are.
      for (size_t first = 0; first < tensor.sizes.size(); ++first) {
        int64_t count = 1;
        for (size_t i = first; i < tensor.sizes.size(); ++i) {
          count *= tensor.sizes[i];
          sizes_.insert(count);
        }
      }
    }
    for (const TapeCall& call : tape.calls) {
      if (IsBackward(call)) continue;
      for (const TapeValue& arg : call.args) {
        for (const int64_t number : IntsOf(&arg)) {
          passed_.insert(number);
          passed_.insert(-number);
        }
      }
    }
  }

  absl::Status Check(int32_t index) const {
    const TapeCall& call = tape_.calls[index];
    if (IsBackward(call) && !KnowsNumbersOf(index)) {
      return absl::FailedPreconditionError(absl::StrCat(
          call.op, ": a number of autograd's may follow from sizes"));
    }
    for (const Cut& cut : kCuts) {
      if (!absl::StartsWith(call.op, cut.op)) continue;
      const std::vector<int64_t> numbers = IntsOf(FindArgument(call, cut.arg));
      for (size_t i = 0; i < numbers.size(); ++i) {
        const bool is_list = numbers.size() > 1 || cut.about != About::kDim;
        const int item = is_list ? static_cast<int>(i) : -1;
        if (followed_.contains({index, ArgOf(call, cut), item}) ||
            HasFormula(index, cut, item) || !IsAboutVarying(call, cut, i) ||
            IsKnown(index, cut, numbers[i])) {
          continue;
        }
        return absl::FailedPreconditionError(absl::StrCat(
            call.op, ": ", cut.arg, ", ", numbers[i],
            ", may follow from a size that differs", LineOf(call)));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Autograd's formulas pass on what the run's calls got, and sizes.
  bool KnowsNumbersOf(int32_t index) const {
    const TapeCall& call = tape_.calls[index];
    static constexpr absl::string_view kOthers[] = {
        "dim", "dims", "dim0", "dim1", "reduction", "correction",
        "ignore_index", "padding_idx", "input_dtype",
        // What a formula multiplies by, or raises to the power of. Those that
        // are made of sizes differ with these: nothing rounds there.
        "other", "exponent", "alpha", "self"};
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (absl::c_linear_search(kOthers, call.arg_names[i])) continue;
      const bool is_one = std::holds_alternative<int64_t>(call.args[i]);
      int32_t item = is_one ? -1 : 0;
      for (const int64_t number : IntsOf(&call.args[i])) {
        const bool is_followed =
            followed_.contains({index, static_cast<int32_t>(i), item++});
        const bool is_plain = is_followed || (number < 2 && number > -2);
        if (!is_plain && number != std::numeric_limits<int64_t>::max() &&
            !passed_.contains(number) && !sizes_.contains(number)) {
          return false;
        }
      }
    }
    return true;
  }

  static int32_t ArgOf(const TapeCall& call, const Cut& cut) {
    const auto arg = absl::c_find(call.arg_names, cut.arg);
    return static_cast<int32_t>(arg - call.arg_names.begin());
  }

  bool HasFormula(int32_t index, const Cut& cut, int32_t item) const {
    return !Formulas(tape_, facts_, groups_, index,
                     ArgOf(tape_.calls[index], cut), item)
                .Find(/*differs=*/false)
                .empty();
  }

  bool Varies(TapeTensorId tensor, int64_t dim) const {
    const auto rank = static_cast<int64_t>(tape_.tensors[tensor].sizes.size());
    if (dim < 0) dim += rank;
    return absl::c_any_of(
        groups_.of(tensor),
        [&](const SizeGroups::Member& member) { return member.dim == dim; });
  }

  bool IsAboutVarying(const TapeCall& call, const Cut& cut, size_t item) const {
    if (cut.about == About::kNone) return true;
    const auto* ref =
        call.args.empty() ? nullptr : std::get_if<TapeTensorRef>(&call.args[0]);
    if (ref == nullptr || ref->id == kNoTapeTensor) return false;
    const TapeTensorId tensor = ref->id;
    switch (cut.about) {
      case About::kDim: {
        const std::vector<int64_t> dim = IntsOf(FindArgument(call, "dim"));
        return Varies(tensor, dim.empty() ? 0 : dim[0]);
      }
      case About::kDims: {
        const std::vector<int64_t> dims = IntsOf(FindArgument(call, "dims"));
        if (item >= dims.size()) break;  // Of all elements in a row.
        return Varies(tensor, dims[item]);
      }
      case About::kSpatial:
        return Varies(tensor, static_cast<int64_t>(item) + 2);
      case About::kPadded:
        return Varies(tensor, -1 - static_cast<int64_t>(item / 2));
      case About::kLast: {
        const std::vector<int64_t> dims = IntsOf(FindArgument(call, "dim"));
        if (dims.empty()) break;
        return Varies(tensor, dims.back());
      }
      default:
        break;
    }
    return !groups_.of(tensor).empty();
  }

  bool IsKnown(int32_t index, const Cut& cut, int64_t number) const {
    const TapeCall& call = tape_.calls[index];
    // Where a dim begins and ends anyway, and no padding.
    if (cut.arg == "end" && number == std::numeric_limits<int64_t>::max()) {
      return true;
    }
    if ((cut.arg == "start" || cut.arg == "pad") && number == 0) return true;
    // Eager raises where that is more than there is.
    if (cut.arg == "pad" && number < 0) return false;
    // What the run's own calls got goes through autograd.
    if (IsBackward(call)) return passed_.contains(number);
    for (const SizeFacts::Use& use : facts_.uses) {
      if (index < use.first_call || index >= use.end_call) continue;
      if (absl::c_linear_search(use.constants, number)) return true;
      if (use.called == "diff" && number == 1) return true;
      for (size_t i = 0; i < use.constants.size(); ++i) {  // narrow().
        for (size_t k = 0; k < use.constants.size(); ++k) {
          if (i != k && use.constants[i] + use.constants[k] == number) {
            return true;
          }
        }
      }
      if (!use.numbers.empty()) return true;  // They are looked at themselves.
    }
    return false;
  }

  const Tape& tape_;
  const SizeFacts& facts_;
  const SizeGroups& groups_;
  std::set<std::tuple<int32_t, int32_t, int32_t>> followed_;  // SizeSlot's.
  std::set<int64_t> passed_;
  std::set<int64_t> sizes_;  // And numbers of elements.
};

}  // namespace

absl::Status CheckFixedNumbers(const Tape& tape, const SizeFacts& facts,
                               const SizeGroups& groups,
                               absl::Span<const SizeSlot> slots) {
  const FixedNumbers numbers(tape, facts, groups, slots);
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    absl::Status status = numbers.Check(static_cast<int32_t>(i));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<SizeTerm> FindFormulas(const Tape& tape, const SizeFacts& facts,
                                   const SizeGroups& groups, int32_t call,
                                   int32_t arg, int32_t item,
                                   absl::Span<const double> values) {
  const bool differs =
      absl::c_any_of(values, [&](double value) { return value != values[0]; });
  std::vector<SizeTerm> fitting;
  for (SizeTerm& term :
       Formulas(tape, facts, groups, call, arg, item).Find(differs)) {
    bool fits = true;
    for (size_t run = 0; run < values.size(); ++run) {
      auto product = static_cast<double>(term.numerator);
      for (const SizeGroup group : term.groups) {
        product *= static_cast<double>(groups.values(group)[run]);
      }
      fits &= RoundBy(term, product) == values[run];
    }
    if (fits) fitting.push_back(std::move(term));
  }
  return fitting;
}

absl::Status CheckFixedProducts(const Tape& tape, const SizeGroups& groups) {
  for (size_t id = 0; id < tape.tensors.size(); ++id) {
    const auto members = groups.of(static_cast<TapeTensorId>(id));
    if (members.size() < 2) continue;
    const uint32_t subsets = 1u << std::min<size_t>(members.size(), 8);
    for (uint32_t subset = 1; subset < subsets; ++subset) {
      std::vector<int64_t> products;
      for (size_t i = 0; i < members.size(); ++i) {
        if ((subset >> i & 1) == 0) continue;
        const std::vector<int64_t>& sizes = groups.values(members[i].group);
        products.resize(sizes.size(), 1);
        for (size_t run = 0; run < sizes.size(); ++run) {
          products[run] *= sizes[run];
        }
      }
      const bool is_same = absl::c_all_of(
          products, [&](int64_t product) { return product == products[0]; });
      if (!is_same) continue;
      return absl::FailedPreconditionError(
          "a number of elements was the same, though sizes differ");
    }
  }
  return absl::OkStatus();
}

}  // namespace mica
