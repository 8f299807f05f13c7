// Products of matrices.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

// One term of a matrix product's type: the letters of an operand's dims.
struct Term {
  int param;
  absl::string_view letters;  // "mk": two dims, called m and k.
};

// Binds letters to sizes; an operand of another rank or size fails.
class LetterSizes {
 public:
  bool Bind(const TensorType& type, absl::string_view letters) {
    if (type.rank() != static_cast<int>(letters.size())) return false;
    for (size_t i = 0; i < letters.size(); ++i) {
      Dim& size = sizes_[letters[i] - 'a'];
      if (size >= 0 && size != type.dims[i]) return false;
      size = type.dims[i];
    }
    return true;
  }
  Dims DimsOf(absl::string_view letters) const {
    Dims dims;
    for (char letter : letters) dims.push_back(sizes_[letter - 'a']);
    return dims;
  }

 private:
  Dims sizes_ = Dims(26, -1);
};

std::string Brackets(absl::string_view letters) {
  std::string text = "[";
  for (char letter : letters) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "",
                    absl::string_view(&letter, 1));
  }
  return text + "]";
}

// A product of `a` and `b` with the dims `result`; `addend` is a parameter
// that broadcasts to it, or -1.
InferFn Product(Term a, Term b, absl::string_view result, int addend = -1) {
  return [=](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    const std::string wanted =
        absl::StrCat(Brackets(a.letters), " and ", Brackets(b.letters));
    const DType dtype = call.Type(a.param).dtype;
    LetterSizes sizes;
    if (!sizes.Bind(call.Type(a.param), a.letters) ||
        !sizes.Bind(call.Type(b.param), b.letters)) {
      return call.Wants(wanted);
    }
    if (call.Type(b.param).dtype != dtype) {
      return call.Wants(absl::StrCat(wanted, " of one dtype"));
    }
    Dims dims = sizes.DimsOf(result);
    if (addend >= 0 && (call.Type(addend).dtype != dtype ||
                        !BroadcastsTo(call.Type(addend).dims, dims))) {
      return call.Wants(absl::StrCat(wanted, " and an addend that broadcasts ",
                                     "to ", Brackets(result)));
    }
    return TensorTypes{FreshTensor(dtype, std::move(dims))};
  };
}

constexpr absl::string_view kActivations[] = {
    "none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu"};

absl::StatusOr<TensorTypes> InferLinear(const OpCall& call) {
  const TensorType& x = call.Type(0);
  const TensorType& weight = call.Type(1);
  if (x.rank() < 1 || weight.rank() != 2 || x.dtype != weight.dtype ||
      x.dims.back() != weight.dims[1]) {
    return call.Wants("x[...,k] and weight[n,k] of one dtype");
  }
  Dims dims = x.dims;
  dims.back() = weight.dims[0];
  if (call.Has(2) && (call.Type(2).dims != Dims{weight.dims[0]} ||
                      call.Type(2).dtype != x.dtype)) {
    return call.Wants("bias[n] for weight[n,k]");
  }
  if (call.Has(3) &&
      (call.Type(3).dims != dims || call.Type(3).dtype != x.dtype)) {
    return call.Wants("a residual of the result's type");
  }
  if (std::find(std::begin(kActivations), std::end(kActivations),
                call.String(4)) == std::end(kActivations)) {
    return call.Wants(
        absl::StrCat("a known activation, not \"", call.String(4), "\","));
  }
  return TensorTypes{FreshTensor(x.dtype, std::move(dims))};
}

}  // namespace

void RegisterMatmulOps(OpRegistry& registry) {
  registry.Add(OpDef("aten::mm(Tensor self, Tensor mat2) -> Tensor")
                   .Doc("self @ mat2, of two matrices.")
                   .Infer(Product({0, "mk"}, {1, "kn"}, "mn"))
                   .Contraction());
  registry.Add(OpDef("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, "
                     "Scalar beta=1, Scalar alpha=1) -> Tensor")
                   .Doc("beta * self + alpha * (mat1 @ mat2).")
                   .Infer(Product({1, "mk"}, {2, "kn"}, "mn", 0))
                   .Contraction());
  registry.Add(OpDef("aten::bmm(Tensor self, Tensor mat2) -> Tensor")
                   .Doc("self[b] @ mat2[b] for each b.")
                   .Infer(Product({0, "bmk"}, {1, "bkn"}, "bmn"))
                   .Contraction());
  registry.Add(OpDef("aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, "
                     "*, Scalar beta=1, Scalar alpha=1) -> Tensor")
                   .Doc("beta * self[b] + alpha * (batch1[b] @ batch2[b]).")
                   .Infer(Product({1, "bmk"}, {2, "bkn"}, "bmn", 0))
                   .Contraction());
  registry.Add(OpDef("aten::mv(Tensor self, Tensor vec) -> Tensor")
                   .Doc("self @ vec, a matrix and a vector.")
                   .Infer(Product({0, "mk"}, {1, "k"}, "m"))
                   .Contraction());
  registry.Add(OpDef("aten::addmv(Tensor self, Tensor mat, Tensor vec, *, "
                     "Scalar beta=1, Scalar alpha=1) -> Tensor")
                   .Doc("beta * self + alpha * (mat @ vec).")
                   .Infer(Product({1, "mk"}, {2, "k"}, "m", 0))
                   .Contraction());
  registry.Add(OpDef("aten::dot(Tensor self, Tensor tensor) -> Tensor")
                   .Doc("Sum of self[i] * tensor[i].")
                   .Infer(Product({0, "k"}, {1, "k"}, ""))
                   .Contraction());
  registry.Add(OpDef("aten::vdot(Tensor self, Tensor other) -> Tensor")
                   .Doc("As dot.")
                   .Infer(Product({0, "k"}, {1, "k"}, ""))
                   .Contraction());
  registry.Add(OpDef("mica::linear(Tensor x, Tensor weight, Tensor? bias, "
                     "Tensor? residual, str activation) -> Tensor")
                   .Doc("activation(x @ weight^T + bias) + residual.")
                   .Infer(InferLinear)
                   .Contraction());
}

}  // namespace mica
