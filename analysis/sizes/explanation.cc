#include "analysis/sizes/explanation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/algorithm/container.h"
#include "framework/base/same_bits.h"
#include "kernels/reference/host_arithmetic.h"

namespace mica {
namespace {

// Factors of a product that is looked for.
constexpr size_t kMaxFactors = 3;
// Sizes that are tried as factors.
constexpr size_t kMaxGroups = 16;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kUnset = -1;
constexpr int64_t kDiffer = -2;

}  // namespace

double RoundBy(const SizeTerm& term, double product) {
  if (term.scale != 0) return std::floor(product * term.scale);
  if (term.by_size != 0) {
    return term.by_size / (product - static_cast<double>(term.less));
  }
  const auto whole = static_cast<int64_t>(product) - term.less;
  if (term.parts == 0) return static_cast<double>(whole);
  return static_cast<double>((whole + term.parts - 1) / term.parts);
}

SizeGroups::SizeGroups(absl::Span<const SizedTape> runs) {
  const Tape& last = *runs.back().tape;
  members_.resize(last.tensors.size());
  for (size_t t = 0; t < last.tensors.size(); ++t) {
    for (size_t d = 0; d < last.tensors[t].sizes.size(); ++d) {
      std::vector<int64_t> values;
      for (const SizedTape& run : runs) {
        values.push_back(run.tape->tensors[t].sizes[d]);
      }
      const bool varies = absl::c_any_of(
          values, [&](int64_t value) { return value != values[0]; });
      if (!varies) continue;
      const auto [it, is_new] =
          by_values_.try_emplace(values, static_cast<SizeGroup>(size()));
      if (is_new) values_.push_back(std::move(values));
      members_[t].push_back({static_cast<int32_t>(d), it->second});
    }
  }
}

SizeGroups SizeGroups::Renumbered(
    absl::Span<const TapeTensorId> tensors) const {
  SizeGroups other = *this;
  other.members_.clear();
  for (const TapeTensorId tensor : tensors) {
    other.members_.push_back(members_[tensor]);
  }
  return other;
}

std::optional<SizeGroup> SizeGroups::Find(
    absl::Span<const double> values) const {
  std::vector<int64_t> whole;
  for (const double value : values) {
    if (!(std::fabs(value) < kHostIntLimit)) return std::nullopt;
    whole.push_back(static_cast<int64_t>(value));
  }
  const auto it = by_values_.find(whole);
  if (it == by_values_.end()) return std::nullopt;
  return it->second;
}

SizeNumbers::SizeNumbers(const SizeFacts& facts, const SizeGroups& groups,
                         absl::Span<const TensorSizes> tensors,
                         absl::Span<const double> given)
    : facts_(facts),
      groups_(groups),
      tensors_(tensors),
      given_(given),
      values_(facts.numbers.size(), kUnknown),
      is_known_(facts.numbers.size()),
      sizes_(groups.size(), kUnset) {}

void SizeNumbers::Note(TapeTensorId tensor) {
  for (const auto& [dim, group] : groups_.of(tensor)) {
    const std::vector<int64_t>& sizes = tensors_[tensor].sizes;
    const int64_t size =
        dim < static_cast<int32_t>(sizes.size()) ? sizes[dim] : kDiffer;
    if (sizes_[group] == kUnset) {
      sizes_[group] = size;
    } else if (sizes_[group] != size) {
      sizes_[group] = kDiffer;
    }
  }
}

double SizeNumbers::Of(int32_t number) {
  if (!is_known_[number]) {
    values_[number] = Compute(facts_.numbers[number]);
    is_known_[number] = true;
  }
  return values_[number];
}

double SizeNumbers::Compute(const SizeFacts::Number& number) {
  if (number.given >= 0) return given_[number.given];
  if (number.loop >= 0) {
    const SizeFacts::Loop& loop = facts_.loops[number.loop];
    if (loop.step == 0) return number.round;
    return Of(loop.start) + static_cast<double>(loop.step * number.round);
  }
  if (number.op.empty() && number.tensor == kNoTapeTensor) return kUnknown;
  if (number.op.empty()) {
    const std::vector<int64_t>& sizes = tensors_[number.tensor].sizes;
    if (number.dim < 0) {
      return static_cast<double>(absl::c_accumulate(
          sizes, int64_t{1}, [](int64_t a, int64_t b) { return a * b; }));
    }
    if (number.dim >= static_cast<int32_t>(sizes.size())) return kUnknown;
    return static_cast<double>(sizes[number.dim]);
  }
  const HostOp* op = FindHostOp(number.op);
  double operands[2] = {0, 0};
  if (op == nullptr || number.operands.size() > 2) return kUnknown;
  for (size_t i = 0; i < number.operands.size(); ++i) {
    operands[i] = Of(number.operands[i]);
    if (std::isnan(operands[i])) return kUnknown;
  }
  double result = kUnknown;
  const char* error = op->compute(operands[0], operands[1], &result);
  return error == nullptr ? result : kUnknown;
}

std::optional<double> SizeNumbers::ProductOf(const SizeTerm& term) const {
  // Sizes are less than 2**46 together, as a Program's are.
  constexpr double kMaxProduct = 1LL << 46;
  double product = static_cast<double>(term.numerator);
  for (const SizeGroup group : term.groups) {
    if (sizes_[group] < 0) return std::nullopt;
    product *= static_cast<double>(sizes_[group]);
    if (std::fabs(product) > kMaxProduct) return std::nullopt;
  }
  return product;
}

std::optional<double> SizeNumbers::Of(const SizeTerm& term) {
  if (term.number >= 0) {
    const double value = Of(term.number);
    if (std::isnan(value)) return std::nullopt;
    if (term.less != 0) return value - static_cast<double>(term.less);
    // Not for 1: a zero keeps its sign.
    return term.numerator == 1 ? value
                               : value * static_cast<double>(term.numerator);
  }
  const std::optional<double> product = ProductOf(term);
  if (!product.has_value()) return std::nullopt;
  const double value = RoundBy(term, *product);
  if (term.denominator == 1) return value;
  const auto whole = static_cast<int64_t>(value);
  if (whole % term.denominator != 0) return std::nullopt;
  return static_cast<double>(whole / term.denominator);
}

Explainer::Explainer(
    absl::Span<const SizedTape> runs, const SizeFacts& facts,
    const SizeGroups& groups, int num_args,
    const std::function<int32_t(size_t run, int32_t number)>& in_run)
    : last_(*runs.back().tape),
      facts_(facts),
      groups_(groups),
      num_args_(num_args),
      first_(groups.size(), std::numeric_limits<int32_t>::max()) {
  for (size_t t = 0; t < last_.tensors.size(); ++t) {
    const TapeTensor& tensor = last_.tensors[t];
    const bool is_argument =
        tensor.origin == TapeOrigin::kInput && tensor.input < num_args;
    if (!is_argument && tensor.origin != TapeOrigin::kCall) continue;
    const int32_t call = is_argument ? -1 : tensor.call;
    for (const auto& [dim, group] : groups.of(static_cast<TapeTensorId>(t))) {
      first_[group] = std::min(first_[group], call);
    }
  }
  for (const SizedTape& run : runs) {
    const std::vector<TensorSizes> sizes = SizesOf(*run.tape);
    SizeNumbers numbers(facts, groups, sizes, run.given);
    std::vector<double>& of_run = numbers_.emplace_back();
    for (size_t i = 0; i < facts.numbers.size(); ++i) {
      const auto number = static_cast<int32_t>(i);
      of_run.push_back(numbers.Of(in_run(numbers_.size() - 1, number)));
    }
  }
}

bool Explainer::IsSame(int32_t number) const {
  return absl::c_all_of(numbers_, [&](const std::vector<double>& of_run) {
    return SameBits(of_run[number], numbers_.back()[number]);
  });
}

void Explainer::NoteUsed(absl::Span<const SizeTerm> terms) {
  for (const SizeTerm& term : terms) {
    if (term.number >= 0) used_.insert({term.use, term.number});
  }
}

bool Explainer::Fits(int32_t number, absl::Span<const double> values,
                     double factor) const {
  for (size_t run = 0; run < values.size(); ++run) {
    if (std::isnan(values[run])) continue;  // It isn't known of that one.
    const double value = numbers_[run][number];
    if (!SameBits(factor == 1 ? value : value * factor, values[run])) {
      return false;
    }
  }
  return true;
}

std::vector<SizeTerm> Explainer::Explain(int32_t call,
                                         absl::Span<const double> values,
                                         bool is_whole, bool is_count) const {
  std::vector<SizeTerm> terms = ExplainByNumbers(call, values);
  const bool is_backward = call >= 0 &&
                           call < static_cast<int32_t>(last_.calls.size()) &&
                           IsBackward(last_.calls[call]);
  if (is_backward) {
    for (SizeTerm& term : ExplainByEarlier(values)) {
      terms.push_back(std::move(term));
    }
  }
  if (!is_whole || !is_count) return terms;
  const bool is_passed = !terms.empty();
  const std::optional<SizeGroup> group = groups_.Find(values);
  if (group.has_value() && first_[*group] < call) {
    terms.push_back({.groups = {*group}});
  }
  // What Python passed is no product of C++'s.
  if (is_passed) return terms;
  for (SizeTerm& term : ExplainByProducts(call, values)) {
    terms.push_back(std::move(term));
  }
  return terms;
}

std::vector<SizeTerm> Explainer::ExplainByNumbers(
    int32_t call, absl::Span<const double> values) const {
  std::vector<SizeTerm> terms;
  for (size_t i = 0; i < facts_.uses.size(); ++i) {
    const SizeFacts::Use& use = facts_.uses[i];
    if (call < use.first_call || call >= use.end_call) continue;
    for (const int32_t number : use.numbers) {
      if (!Fits(number, values, 1)) continue;
      terms.push_back({.number = number, .use = static_cast<int32_t>(i)});
    }
    // Where it ends, of where it begins and how long it is.
    if (!terms.empty() || use.called != "narrow") continue;
    for (const int32_t number : use.numbers) {
      for (const int64_t length : use.constants) {
        std::vector<double> begins(values.begin(), values.end());
        for (double& begin : begins) begin -= static_cast<double>(length);
        if (!Fits(number, begins, 1)) continue;
        terms.push_back({.number = number,
                         .use = static_cast<int32_t>(i),
                         .less = -length});
      }
    }
  }
  return terms;
}

std::vector<SizeTerm> Explainer::ExplainByEarlier(
    absl::Span<const double> values) const {
  std::vector<SizeTerm> terms;
  for (const auto& [use, number] : used_) {
    for (const int factor : {1, -1}) {
      if (!Fits(number, values, factor)) continue;
      terms.push_back({.number = number, .use = use, .numerator = factor});
    }
  }
  return terms;
}

std::vector<SizeGroup> Explainer::GroupsAt(int32_t call) const {
  std::set<TapeTensorId> tensors;
  if (call >= 0 && call < static_cast<int32_t>(last_.calls.size())) {
    for (const TapeValue& arg : last_.calls[call].args) {
      ForEachTensor(arg, [&](TapeTensorId id) { tensors.insert(id); });
    }
  }
  for (int i = 0; i < num_args_; ++i) tensors.insert(last_.inputs[i]);
  std::set<SizeGroup> groups;
  for (const TapeTensorId id : tensors) {
    for (const auto& [dim, group] : groups_.of(id)) groups.insert(group);
  }
  std::vector<SizeGroup> found(groups.begin(), groups.end());
  if (found.size() > kMaxGroups) found.resize(kMaxGroups);
  return found;
}

// A constant times a product of up to three sizes, or a whole fraction of one:
// what C++ code makes of them where it joins or splits dims, counts elements or
// takes a mean.
std::vector<SizeTerm> Explainer::ExplainByProducts(
    int32_t call, absl::Span<const double> values) const {
  const std::vector<SizeGroup> groups = GroupsAt(call);
  std::vector<SizeTerm> terms;
  std::vector<SizeGroup> chosen;
  const auto consider = [&] {
    std::vector<int64_t> products(values.size(), 1);
    for (const SizeGroup group : chosen) {
      for (size_t run = 0; run < values.size(); ++run) {
        products[run] *= groups_.values(group)[run];
      }
    }
    const auto first = static_cast<int64_t>(values[0]);
    for (size_t run = 1; run < values.size(); ++run) {
      if (static_cast<__int128>(first) * products[run] !=
          static_cast<__int128>(static_cast<int64_t>(values[run])) *
              products[0]) {
        return;
      }
    }
    const int64_t divisor = std::gcd(first, products[0]);
    if (divisor == 0) return;
    SizeTerm term{.groups = chosen,
                  .numerator = first / divisor,
                  .denominator = products[0] / divisor};
    // The group itself is known.
    if (chosen.size() == 1 && term.numerator == 1 && term.denominator == 1) {
      return;
    }
    // Others come of rounding: a third of 8 rows, as chunk() has it, is 3.
    if (term.numerator != 1 && term.denominator != 1) return;
    terms.push_back(std::move(term));
  };
  // Each set once, a size perhaps twice (a square).
  const auto extend = [&](auto& self, size_t from) -> void {
    for (size_t i = from; i < groups.size(); ++i) {
      chosen.push_back(groups[i]);
      consider();
      if (chosen.size() < kMaxFactors) self(self, i);
      chosen.pop_back();
    }
  };
  extend(extend, 0);
  // A fraction that fits where a whole multiple does is chance.
  const auto is_fraction = [](const SizeTerm& term) {
    return term.denominator != 1;
  };
  if (!absl::c_all_of(terms, is_fraction)) {
    terms.erase(std::remove_if(terms.begin(), terms.end(), is_fraction),
                terms.end());
  }
  return terms;
}

}  // namespace mica
