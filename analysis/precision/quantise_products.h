// Products with frozen weights in few bits.

#ifndef MICA_ANALYSIS_PRECISION_QUANTISE_PRODUCTS_H_
#define MICA_ANALYSIS_PRECISION_QUANTISE_PRODUCTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/precision/precision.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// Rows and columns that a weight has at least: what is smaller costs little,
// and its quantisation as much as it saves.
inline constexpr int64_t kFewestQuantised = 64;

// A Program in which products of float32 whose weight depends on variables
// alone, none of which it updates, are mica.int8_linear or mica.int4_linear.
// Left as they are: weights with fewer than kFewestQuantised rows or columns,
// and with 2^16 or more terms a sum. Products that no further one follows make
// what users see, a classifier's scores or a language model's: they have int8
// weights and rows of float32 in every precision. Those of branches and loops
// stay.
absl::StatusOr<Program> QuantiseProducts(const Program& program,
                                         const OpRegistry& ops,
                                         Precision precision);

// One that QuantiseProducts() changes.
struct QuantisedProduct {
  SourceLine source;  // Of the product.
  int64_t n = 0, k = 0;
  Precision precision = Precision::kAsWritten;
};
// A Program that computes as given and tells of each product that
// QuantiseProducts() changes how far its result would be from its own: outputs
// 4 * i to 4 * i + 3 are, for product i, the sums over all elements of
// (own - other)^2, own^2, other^2 and own * other. It updates nothing.
struct MeasuredProducts {
  Program program;
  std::vector<QuantisedProduct> products;
};
absl::StatusOr<MeasuredProducts> MeasureProducts(const Program& program,
                                                 const OpRegistry& ops,
                                                 Precision precision);

}  // namespace mica

#endif  // MICA_ANALYSIS_PRECISION_QUANTISE_PRODUCTS_H_
