#include "analysis/cost/op_work.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/passes/rewrite.h"

namespace mica {
namespace {

// Of [b,m,k] by [b,k,n] the products are b times those of a matrix.
double BatchOf(const Program& program, const Op& op) {
  if (op.results.empty()) return 1;
  const TensorType& result = program.type(op.results[0]);
  if (result.rank() != 3 || result.dims[0] < 1) return 1;
  bool is_batch = true;
  ForEachValue(op.arguments, [&](ValueId id) {
    const TensorType& type = program.type(id);
    if (type.rank() == 3) is_batch = is_batch && type.dims[0] == result.dims[0];
    if (type.rank() == 2) is_batch = false;
  });
  return is_batch ? static_cast<double>(result.dims[0]) : 1;
}

// Each weight of an output channel meets each of the channel's pixels.
double ConvolutionProducts(const Program& program, const Op& op) {
  const TensorType& weight = program.type(OperandsOf(op)[1]);
  if (weight.num_elements() == 0) return 0;
  return static_cast<double>(program.type(op.results[0]).num_elements()) *
         static_cast<double>(weight.num_elements() / weight.dims[0]);
}

}  // namespace

bool IsConvolution(const Op& op) {
  return op.def->name() == "aten.convolution" ||
         op.def->name() == "mica.convolution" ||
         op.def->name() == "mica.scaled_convolution";
}

OpWork WorkOf(const Program& program, const Op& op) {
  OpWork work;
  if (op.def->is_view()) return work;
  double written = 0;
  for (ValueId id : op.results) {
    written += static_cast<double>(program.type(id).num_elements());
  }
  double largest = 0;
  double second = 0;
  work.moved = written;
  ForEachValue(op.arguments, [&](ValueId id) {
    auto elements = static_cast<double>(program.type(id).num_elements());
    work.moved += elements;
    if (elements > largest) std::swap(elements, largest);
    second = std::max(second, elements);
  });
  if (IsConvolution(op)) {
    work.products = ConvolutionProducts(program, op);
  } else if (op.def->is_contraction()) {
    work.products =
        std::sqrt(largest * second * written / BatchOf(program, op));
  }
  return work;
}

}  // namespace mica
