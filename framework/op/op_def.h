// What an operator means: signature, result types, views, effects.

#ifndef MICA_FRAMEWORK_OP_OP_DEF_H_
#define MICA_FRAMEWORK_OP_OP_DEF_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/ir/argument.h"
#include "framework/op/schema.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

class OpDef;

using TensorTypes = absl::InlinedVector<TensorType, 1>;

// The type of a result that a call leaves out, as a backward does for operands
// that need no gradient: f32[0]. Nothing reads such a result.
TensorType AbsentResultType();

// An op as inference sees it: its arguments and the types of the values among
// them. Parameters are named by their position in the schema. Lives for the
// call only.
class OpCall {
 public:
  // `types` is indexed by ValueId.
  using TypeOf = std::function<const TensorType&(ValueId)>;
  OpCall(const OpDef& def, const Arguments& arguments, const TypeOf& type_of)
      : def_(def), arguments_(arguments), type_of_(type_of) {}

  const OpDef& def() const { return def_; }
  const Arguments& arguments() const { return arguments_; }
  // False for None and for a parameter that was left out.
  bool Has(int param) const;
  bool IsValue(int param) const;
  // The type of the value given for `param`. Requires IsValue(param).
  const TensorType& Type(int param) const;
  // The types of a list of values; absent entries are null.
  std::vector<const TensorType*> Types(int param) const;
  // The constant given for `param`. Each requires Has(param) and the kind.
  int64_t Int(int param) const;
  bool Bool(int param) const;
  // An int, float or bool constant as a double.
  double Number(int param) const;
  absl::Span<const int64_t> Ints(int param) const;
  const std::string& String(int param) const;
  DType GetDType(int param) const;
  // A constant number's category as the dtype that it has by itself: bool,
  // i64 or f64; for a host scalar value its dtype.
  DType NumberDType(int param) const;

  // InvalidArgument: "aten.mm: wants <wanted>, got <types of all values>".
  absl::Status Wants(absl::string_view wanted) const;

 private:
  const OpDef& def_;
  const Arguments& arguments_;
  const TypeOf& type_of_;
};

// Result types of a call; strides left empty mean row-major. Called with
// static types only.
using InferFn = std::function<absl::StatusOr<TensorTypes>(const OpCall&)>;

// Where a view's elements lie in its base: element `index` of the view is
// element offset + Σ index[i]·strides[i] of the base's memory.
struct View {
  Dims dims;
  Dims strides;  // In elements.
  int64_t offset = 0;
  // If the view has another dtype than its base: dims and strides are in the
  // view's elements, the offset in the base's.
  std::optional<DType> dtype;
};
// Locates a view over a base whose strides are EffectiveStrides(). Fails, as
// eager does, where the strides don't allow one.
using ViewFn = std::function<absl::StatusOr<View>(const OpCall&)>;

// Of an operator whose result is its first parameter with a part replaced: how
// that part is read and written, by operators whose parameters are some of this
// one's, in order; what they have beyond these has its default.
struct PartWrite {
  static constexpr int kPart = -1;  // What was read, in place of a parameter.
  std::string reader;
  std::vector<int> reader_params;
  std::string writer;
  std::vector<int> writer_params;
};

// One operator. Made by one expression in ops/, then frozen in an OpRegistry:
//
//   registry.Add(OpDef("aten::relu(Tensor self) -> Tensor")
//                    .Doc("y = max(x, 0), element by element.")
//                    .Infer(SameTypeAs(0))
//                    .Elementwise());
class OpDef {
 public:
  // `schema` in ATen's notation; CHECK-fails on a malformed one, which only a
  // bug of ours can give.
  explicit OpDef(absl::string_view schema);
  // An operator known by its schema alone: it runs through ATen, its result
  // types are those of the record.
  static OpDef Opaque(Schema schema);

  OpDef& Doc(absl::string_view doc);
  OpDef& Infer(InferFn infer);
  // The single result is a view of the first argument and costs nothing.
  OpDef& ViewOf(ViewFn view);
  // Every result element depends only on the operand elements at its place,
  // after broadcasting. The fuser may take it.
  OpDef& Elementwise();
  // Sums products of its operands' elements: matrix products, convolutions,
  // attention. How long it takes is told by its multiplications.
  OpDef& Contraction();
  // Draws random numbers or acts on the world: kept in program order, never
  // dropped, merged or run twice.
  OpDef& Effect();
  // Some values of its operands are an error: an index out of range, a whole
  // number divided by 0. A call is run though nothing reads what it gives.
  OpDef& RaisesByValues();

  // What is given for this parameter is a label: no kernel, no type and no pass
  // reads it, and Programs that differ in it alone have one Plan.
  OpDef& Label(absl::string_view param);

  // The single result is the first argument but for a part.
  OpDef& WritesPart(PartWrite part);

  // How many elements the results have depends on data: Infer() gives the most
  // dims that there can be, a Program names a symbol for each that is unknown.
  OpDef& Bounded();

  const std::string& name() const { return schema_.op; }
  const std::string& doc() const { return doc_; }
  const Schema& schema() const { return schema_; }
  const InferFn& infer() const { return infer_; }
  const ViewFn& view() const { return view_; }
  bool is_view() const { return view_ != nullptr; }
  bool is_elementwise() const { return is_elementwise_; }
  bool is_contraction() const { return is_contraction_; }
  bool has_effect() const { return has_effect_; }
  bool raises_by_values() const { return raises_by_values_; }
  bool is_opaque() const { return is_opaque_; }
  bool is_bounded() const { return is_bounded_; }
  // The number of the parameter that is a label; -1 if none is.
  int label_param() const { return label_param_; }
  // Null if it writes no part.
  const PartWrite* part_write() const {
    return part_write_.has_value() ? &*part_write_ : nullptr;
  }
  // How many results a call has; -1 if that depends on the call, because the
  // schema has a list among its results.
  int num_results() const { return num_results_; }
  // Of an opaque operator: the parameters that ATen writes in place and does
  // not return. Their new values follow the schema's results; the caller's
  // operands are never written.
  const std::vector<int>& hidden_results() const { return hidden_results_; }
  // Position of the parameter, or -1.
  int FindParam(absl::string_view name) const;

 private:
  OpDef() = default;
  Schema schema_;
  std::string doc_;
  InferFn infer_;
  ViewFn view_;
  bool is_elementwise_ = false;
  bool is_contraction_ = false;
  bool has_effect_ = false;
  bool raises_by_values_ = false;
  bool is_opaque_ = false;
  bool is_bounded_ = false;
  int label_param_ = -1;
  std::optional<PartWrite> part_write_;
  int num_results_ = 0;
  std::vector<int> hidden_results_;
};

// InvalidArgument unless `arguments` has as many entries as the schema and
// each is of its parameter's kind, values aside. Ints are legal for floats and
// numbers.
absl::Status CheckArguments(const OpDef& def, const Arguments& arguments);

// Result types of a call with static types, legal sizes included: by the view
// function for a view, else by the inference function. Errors name the op.
// Operators other than views neither take nor make complex numbers: it is an
// error, and they are opaque ones' to compute with.
absl::StatusOr<TensorTypes> InferTypes(const OpCall& call);

}  // namespace mica

#endif  // MICA_FRAMEWORK_OP_OP_DEF_H_
