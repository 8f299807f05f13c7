// Sizes that follow from other sizes.

#ifndef MICA_FRAMEWORK_TENSOR_SIZE_EXPRESSION_H_
#define MICA_FRAMEWORK_TENSOR_SIZE_EXPRESSION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace mica {

// A polynomial with whole coefficients, such as "12*batch*rows-4", of symbols
// and quotients of such by whole numbers, rounded down: "8*(rows+1)/2". A
// symbol whose name is one (SymbolDim) has no size of its own: it follows from
// those of the symbols in it.
class SizeExpression {
 public:
  // Factors, sorted: words and quotients. None of the constant term.
  using Product = std::vector<std::string>;

  // Nothing if `text` is none. Whole numbers, words and quotients, joined by
  // "*", "+" and "-", without blanks; at most kMaxTerms terms of kMaxFactors
  // factors, and quotients in quotients no deeper than kMaxDepth.
  static std::optional<SizeExpression> Parse(absl::string_view text) {
    return Parse(text, 0);
  }
  static constexpr size_t kMaxTerms = 64;
  static constexpr size_t kMaxFactors = 8;
  static constexpr int kMaxDepth = 8;

  void Add(int64_t coefficient, Product product);
  // Products with more factors first, the constant last; "0" for nothing.
  std::string ToString() const;
  // Nothing if a symbol isn't among `sizes`, or the result is out of range.
  std::optional<int64_t> At(
      const absl::flat_hash_map<std::string, int64_t>& sizes) const;

 private:
  static std::optional<SizeExpression> Parse(absl::string_view text, int depth);

  struct IsBefore {
    bool operator()(const Product& a, const Product& b) const {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
  };
  std::map<Product, int64_t, IsBefore> terms_;
};

// Whether a symbol called so has no size of its own.
bool FollowsFromOthers(const std::string& name);
// The size of the symbol called `name`, which may follow from others.
std::optional<int64_t> SizeOfSymbol(
    const std::string& name,
    const absl::flat_hash_map<std::string, int64_t>& sizes);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_SIZE_EXPRESSION_H_
