#include "framework/tensor/size_expression.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace mica {
namespace {

bool IsWordOfSymbol(absl::string_view text) {
  if (text.empty() || absl::ascii_isdigit(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.';
  });
}

// The text up to the next operator that is in no brackets; a quotient's divisor
// is part of it.
absl::string_view TakeFactor(absl::string_view* text) {
  size_t end = 0;
  int depth = 0;
  for (; end < text->size(); ++end) {
    const char c = (*text)[end];
    if (depth == 0 && (c == '+' || c == '-' || c == '*')) break;
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
  }
  const absl::string_view factor = text->substr(0, end);
  text->remove_prefix(end);
  return factor;
}

// "(dividend)/divisor".
struct Quotient {
  absl::string_view dividend;
  int64_t divisor = 1;
};
std::optional<Quotient> SplitQuotient(absl::string_view factor) {
  const size_t end = factor.rfind(")/");
  Quotient quotient;
  if (factor.empty() || factor[0] != '(' || end == absl::string_view::npos ||
      !absl::ascii_isdigit(factor.back()) ||
      !absl::SimpleAtoi(factor.substr(end + 2), &quotient.divisor) ||
      quotient.divisor < 1) {
    return std::nullopt;
  }
  quotient.dividend = factor.substr(1, end - 1);
  return quotient;
}

}  // namespace

std::optional<SizeExpression> SizeExpression::Parse(absl::string_view text,
                                                    int depth) {
  SizeExpression made;
  size_t num_terms = 0;
  while (!text.empty()) {
    int64_t coefficient = 1;
    if (text[0] == '-' || (text[0] == '+' && num_terms > 0)) {
      coefficient = text[0] == '-' ? -1 : 1;
      text.remove_prefix(1);
    }
    Product product;
    do {
      const absl::string_view factor = TakeFactor(&text);
      int64_t number = 0;
      if (IsWordOfSymbol(factor)) {
        product.emplace_back(factor);
      } else if (const auto quotient = SplitQuotient(factor)) {
        if (depth == kMaxDepth ||
            !Parse(quotient->dividend, depth + 1).has_value()) {
          return std::nullopt;
        }
        product.emplace_back(factor);
      } else if (factor.empty() || !absl::ascii_isdigit(factor[0]) ||
                 !absl::SimpleAtoi(factor, &number) ||
                 __builtin_mul_overflow(coefficient, number, &coefficient)) {
        return std::nullopt;
      }
    } while (absl::ConsumePrefix(&text, "*"));
    if (++num_terms > kMaxTerms || product.size() > kMaxFactors ||
        (!text.empty() && text[0] != '+' && text[0] != '-')) {
      return std::nullopt;
    }
    made.Add(coefficient, std::move(product));
  }
  if (num_terms == 0) return std::nullopt;
  return made;
}

void SizeExpression::Add(int64_t coefficient, Product product) {
  std::sort(product.begin(), product.end());
  const auto it = terms_.try_emplace(std::move(product), 0).first;
  // Wraps as At() would: out of range there.
  it->second = static_cast<int64_t>(static_cast<uint64_t>(it->second) +
                                    static_cast<uint64_t>(coefficient));
  if (it->second == 0) terms_.erase(it);
}

std::string SizeExpression::ToString() const {
  std::string text;
  for (const auto& [product, coefficient] : terms_) {
    if (!text.empty() && coefficient > 0) text += '+';
    if (product.empty()) {
      absl::StrAppend(&text, coefficient);
      continue;
    }
    if (coefficient == -1) {
      text += '-';
    } else if (coefficient != 1) {
      absl::StrAppend(&text, coefficient, "*");
    }
    absl::StrAppend(&text, absl::StrJoin(product, "*"));
  }
  return text.empty() ? "0" : text;
}

namespace {

std::optional<int64_t> SizeOfFactor(
    const std::string& factor,
    const absl::flat_hash_map<std::string, int64_t>& sizes) {
  if (const auto it = sizes.find(factor); it != sizes.end()) return it->second;
  const auto quotient = SplitQuotient(factor);
  if (!quotient.has_value()) return std::nullopt;
  const auto dividend = SizeExpression::Parse(quotient->dividend);
  const auto value = dividend.has_value() ? dividend->At(sizes) : std::nullopt;
  if (!value.has_value()) return std::nullopt;
  const int64_t rest = *value % quotient->divisor;
  return *value / quotient->divisor - (rest < 0 ? 1 : 0);
}

}  // namespace

std::optional<int64_t> SizeExpression::At(
    const absl::flat_hash_map<std::string, int64_t>& sizes) const {
  int64_t sum = 0;
  for (const auto& [product, coefficient] : terms_) {
    int64_t value = coefficient;
    for (const std::string& factor : product) {
      const std::optional<int64_t> size = SizeOfFactor(factor, sizes);
      if (!size.has_value() || __builtin_mul_overflow(value, *size, &value)) {
        return std::nullopt;
      }
    }
    if (__builtin_add_overflow(sum, value, &sum)) return std::nullopt;
  }
  return sum;
}

bool FollowsFromOthers(const std::string& name) {
  return !IsWordOfSymbol(name) && SizeExpression::Parse(name).has_value();
}

std::optional<int64_t> SizeOfSymbol(
    const std::string& name,
    const absl::flat_hash_map<std::string, int64_t>& sizes) {
  if (const auto it = sizes.find(name); it != sizes.end()) return it->second;
  const auto expression = SizeExpression::Parse(name);
  return expression.has_value() ? expression->At(sizes) : std::nullopt;
}

}  // namespace mica
