#include "analysis/sizes/polynomial_fit.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace mica {
namespace {

// 2^61 - 1, a prime far above any coefficient.
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
// Larger ones are no sizes.
constexpr int64_t kMaxCoefficient = int64_t{1} << 46;

uint64_t Times(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
}
uint64_t Plus(uint64_t a, uint64_t b) { return (a + b) % kPrime; }
uint64_t Minus(uint64_t a, uint64_t b) { return (a + kPrime - b) % kPrime; }
uint64_t Residue(int64_t value) {
  const int64_t rest = value % static_cast<int64_t>(kPrime);
  return static_cast<uint64_t>(rest < 0 ? rest + static_cast<int64_t>(kPrime)
                                        : rest);
}
// By Fermat's little theorem.
uint64_t Inverse(uint64_t a) {
  uint64_t result = 1;
  for (uint64_t left = kPrime - 2; left > 0; left >>= 1) {
    if ((left & 1) != 0) result = Times(result, a);
    a = Times(a, a);
  }
  return result;
}

void AppendProducts(int num_variables, int degree,
                    const PolynomialFit::Product& begun,
                    std::vector<PolynomialFit::Product>* products) {
  products->push_back(begun);
  if (static_cast<int>(begun.size()) == degree) return;
  for (int v = begun.empty() ? 0 : begun.back(); v < num_variables; ++v) {
    PolynomialFit::Product longer = begun;
    longer.push_back(v);
    AppendProducts(num_variables, degree, longer, products);
  }
}

// Adds `factor` times a row to another.
void AddTimes(const std::vector<uint64_t>& from, uint64_t factor,
              std::vector<uint64_t>& to) {
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = Plus(to[i], Times(factor, from[i]));
  }
}

void Scale(uint64_t factor, std::vector<uint64_t>& row) {
  for (uint64_t& value : row) value = Times(value, factor);
}

int64_t ValueOf(const PolynomialFit::Quotient& quotient, int64_t at) {
  const int64_t dividend = quotient.factor * at + quotient.summand;
  return dividend / quotient.divisor -
         (dividend % quotient.divisor < 0 ? 1 : 0);
}

// Whether two quotients are the same from `low` to beyond `high`.
bool AreSame(const PolynomialFit::Quotient& a, const PolynomialFit::Quotient& b,
             int64_t low, int64_t high) {
  constexpr int64_t kMore = 256, kMost = 8192;
  for (int64_t at = low; at <= std::min(high + kMore, low + kMost); ++at) {
    if (ValueOf(a, at) != ValueOf(b, at)) return false;
  }
  return true;
}

}  // namespace

PolynomialFit::PolynomialFit(int num_variables, int degree,
                             absl::Span<const std::vector<int64_t>> points) {
  AppendProducts(num_variables, degree, {}, &products_);
  const size_t count = products_.size();
  for (const std::vector<int64_t>& point : points) {
    std::vector<int64_t>& row = powers_.emplace_back();
    for (const Product& product : products_) {
      int64_t value = 1;
      bool fits = true;
      for (const int variable : product) {
        fits = fits && !__builtin_mul_overflow(value, point[variable], &value);
      }
      if (!fits) return;
      row.push_back(value);
    }
  }
  // Gauss and Jordan: rows that don't depend on earlier ones decide. Beside
  // each is what it is made of, which ends as the inverse.
  std::vector<std::vector<uint64_t>> rows;
  std::vector<size_t> pivots;
  for (size_t p = 0; p < powers_.size() && rows.size() < count; ++p) {
    std::vector<uint64_t> row(2 * count);
    for (size_t i = 0; i < count; ++i) row[i] = Residue(powers_[p][i]);
    row[count + rows.size()] = 1;
    for (size_t r = 0; r < rows.size(); ++r) {
      AddTimes(rows[r], Minus(0, row[pivots[r]]), row);
    }
    size_t pivot = 0;
    while (pivot < count && row[pivot] == 0) ++pivot;
    if (pivot == count) continue;
    Scale(Inverse(row[pivot]), row);
    for (std::vector<uint64_t>& earlier : rows) {
      AddTimes(row, Minus(0, earlier[pivot]), earlier);
    }
    rows.push_back(std::move(row));
    pivots.push_back(pivot);
    deciding_.push_back(p);
  }
  if (rows.size() < count) return;
  inverse_.resize(count);
  for (size_t r = 0; r < count; ++r) {
    inverse_[pivots[r]].assign(rows[r].begin() + static_cast<int64_t>(count),
                               rows[r].end());
  }
  is_determined_ = powers_.size() >= count + kSpare;
}

std::optional<std::vector<int64_t>> PolynomialFit::Find(
    absl::Span<const int64_t> values) const {
  if (!is_determined_ || values.size() != powers_.size()) return std::nullopt;
  std::vector<int64_t> coefficients;
  for (const std::vector<uint64_t>& row : inverse_) {
    uint64_t sum = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      sum = Plus(sum, Times(row[i], Residue(values[deciding_[i]])));
    }
    const auto coefficient =
        static_cast<int64_t>(sum) -
        (sum > kPrime / 2 ? static_cast<int64_t>(kPrime) : 0);
    if (coefficient > kMaxCoefficient || coefficient < -kMaxCoefficient) {
      return std::nullopt;
    }
    coefficients.push_back(coefficient);
  }
  for (size_t p = 0; p < powers_.size(); ++p) {
    __int128 sum = 0;
    for (size_t i = 0; i < coefficients.size(); ++i) {
      sum += static_cast<__int128>(coefficients[i]) * powers_[p][i];
    }
    if (sum != values[p]) return std::nullopt;
  }
  return coefficients;
}

std::optional<PolynomialFit::Quotient> PolynomialFit::FindQuotient(
    absl::Span<const int64_t> at, absl::Span<const int64_t> values) {
  constexpr int64_t kMaxDivisor = 64;
  constexpr int64_t kMaxSize = int64_t{1} << 32;
  size_t low = 0, high = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < -kMaxSize || at[i] > kMaxSize || values[i] < -kMaxSize ||
        values[i] > kMaxSize) {
      return std::nullopt;
    }
    if (at[i] < at[low]) low = i;
    if (at[i] > at[high]) high = i;
  }
  if (at[low] == at[high]) return std::nullopt;
  std::optional<Quotient> found;
  for (int64_t divisor = 2; divisor <= kMaxDivisor; ++divisor) {
    if (found.has_value() && divisor > 2 * found->divisor) break;
    // The slope lies near that from end to end.
    const int64_t near =
        divisor * (values[high] - values[low]) / (at[high] - at[low]);
    for (int64_t factor = near - 1; factor <= near + divisor; ++factor) {
      if (factor == 0) continue;
      // Each value leaves the summand a range.
      int64_t least = std::numeric_limits<int64_t>::min();
      int64_t greatest = std::numeric_limits<int64_t>::max();
      for (size_t i = 0; i < at.size(); ++i) {
        const int64_t begin = divisor * values[i] - factor * at[i];
        least = std::max(least, begin);
        greatest = std::min(greatest, begin + divisor - 1);
      }
      for (const int64_t summand : {least, greatest}) {
        if (least > greatest) break;
        const Quotient one{factor, summand, divisor};
        if (!found.has_value()) found = one;
        if (!AreSame(*found, one, at[low], at[high])) return std::nullopt;
      }
    }
  }
  return found;
}

}  // namespace mica
