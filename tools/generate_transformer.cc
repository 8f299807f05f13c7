#include "tools/generate_transformer.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "framework/ir/program_builder.h"

namespace mica {
namespace {

using Ints = std::vector<int64_t>;

// Adds ops to one Program. After an error its functions do nothing, so that a
// model reads as a list of layers; status() is the first.
class OpAdder {
 public:
  OpAdder(absl::string_view name, DType dtype, const OpRegistry& registry)
      : builder_(registry, name), dtype_(dtype) {}

  // The type of a tensor with elements of the model's dtype.
  TensorType TypeOf(Dims dims) const {
    return {.dtype = dtype_, .dims = std::move(dims)};
  }

  // Of sums that are kept for the backward pass.
  TensorType StatsTypeOf(Dims dims) const {
    return {.dtype = dtype_ == DType::kF64 ? DType::kF64 : DType::kF32,
            .dims = std::move(dims)};
  }

  ValueId Keep(absl::StatusOr<ValueId> value) {
    if (value.ok()) return *value;
    if (status_.ok()) status_ = value.status();
    return kNoValue;
  }

  // All results; of the length `num_results` after an error too.
  std::vector<ValueId> AddAll(absl::string_view op, Arguments arguments,
                              size_t num_results,
                              std::vector<TensorType> types = {}) {
    std::vector<ValueId> values(num_results, kNoValue);
    if (!status_.ok()) return values;
    absl::StatusOr<const OpDef*> def = builder_.FindOp(op);
    if (!def.ok()) {
      status_ = def.status();
      return values;
    }
    auto results = builder_.AddOp({.def = *def,
                                   .arguments = std::move(arguments),
                                   .types = std::move(types)});
    if (!results.ok()) {
      status_ = results.status();
      return values;
    }
    return std::vector<ValueId>(results->begin(), results->end());
  }

  ValueId Add(absl::string_view op, Arguments arguments,
              std::vector<TensorType> types = {}) {
    return AddAll(op, std::move(arguments), 1, std::move(types))[0];
  }

  ValueId Input(absl::string_view name, Dims dims) {
    return Keep(builder_.AddInput(name, TypeOf(std::move(dims))));
  }

  ValueId Variable(absl::string_view name, Dims dims) {
    return Keep(builder_.AddVariable("", name, TypeOf(std::move(dims))));
  }

  ValueId Reshape(ValueId x, Ints dims) {
    return Add("aten.view", {ValueRef{x}, std::move(dims)});
  }

  ValueId Transpose(ValueId x, int64_t a, int64_t b) {
    return Add("aten.transpose.int", {ValueRef{x}, a, b});
  }

  ValueId Sum(ValueId a, ValueId b) {
    return Add("aten.add.Tensor", {ValueRef{a}, ValueRef{b}});
  }

  // y = flat @ weight^T + bias.
  struct LinearValues {
    ValueId weight, bias, flat, y;
  };
  // x as [rows, in], and what torch's Linear makes of it.
  LinearValues AddLinear(absl::string_view name, ValueId x, int64_t rows,
                         int64_t in, int64_t out) {
    LinearValues v;
    v.weight = Variable(absl::StrCat(name, ".weight"), {out, in});
    v.bias = Variable(absl::StrCat(name, ".bias"), {out});
    v.flat = Reshape(x, {rows, in});
    const ValueId transposed = Add("aten.t", {ValueRef{v.weight}});
    v.y = Add("aten.addmm",
              {ValueRef{v.bias}, ValueRef{v.flat}, ValueRef{transposed}});
    return v;
  }

  struct LayerNormValues {
    ValueId weight, bias, y, mean, rstd;
  };
  LayerNormValues AddLayerNorm(absl::string_view name, ValueId x,
                               int64_t size) {
    LayerNormValues v;
    v.weight = Variable(absl::StrCat(name, ".weight"), {size});
    v.bias = Variable(absl::StrCat(name, ".bias"), {size});
    const std::vector<ValueId> results = AddAll(
        "aten.native_layer_norm",
        {ValueRef{x}, Ints{size}, ValueRef{v.weight}, ValueRef{v.bias}, 1e-5},
        3);
    v.y = results[0];
    v.mean = results[1];
    v.rstd = results[2];
    return v;
  }

  void Update(ValueId target, ValueId value) {
    if (status_.ok()) status_ = builder_.AddUpdate(target, value);
  }

  absl::StatusOr<Program> Build(ValueId result) {
    MICA_RETURN_IF_ERROR(status_);
    return builder_.Build({result});
  }

 private:
  ProgramBuilder builder_;
  const DType dtype_;
  absl::Status status_;
};

class TransformerBuilder : private OpAdder {
 public:
  TransformerBuilder(const GenerateOptions& options, const OpRegistry& registry)
      : OpAdder("transformer", options.dtype, registry), options_(options) {}

  absl::StatusOr<Program> Build() {
    const Dims dims = {options_.batch, options_.seq, options_.hidden};
    ValueId x = Input("x", dims);
    for (int64_t i = 0; i < options_.layers; ++i) {
      x = Layer(absl::StrCat("layers.", i), x);
    }
    x = LayerNorm("norm", x);
    return OpAdder::Build(x);
  }

 private:
  ValueId Linear(absl::string_view name, ValueId x, int64_t in, int64_t out) {
    const int64_t rows = options_.batch * options_.seq;
    return Reshape(AddLinear(name, x, rows, in, out).y,
                   {options_.batch, options_.seq, out});
  }

  ValueId LayerNorm(absl::string_view name, ValueId x) {
    return AddLayerNorm(name, x, options_.hidden).y;
  }

  ValueId Attention(absl::string_view name, ValueId x) {
    const int64_t batch = options_.batch;
    const int64_t seq = options_.seq;
    const int64_t hidden = options_.hidden;
    const int64_t heads = options_.heads;
    const int64_t size = hidden / heads;
    ValueId qkv = Linear(absl::StrCat(name, ".qkv"), x, hidden, 3 * hidden);
    qkv = Reshape(qkv, {batch, seq, 3, heads, size});
    qkv = Add("aten.permute", {ValueRef{qkv}, Ints{2, 0, 3, 1, 4}});
    Arguments operands;
    for (int64_t i = 0; i < 3; ++i) {
      operands.push_back(
          ValueRef{Add("aten.select.int", {ValueRef{qkv}, int64_t{0}, i})});
    }
    // Laid out as eager's kernel does it, so that joining the heads is free.
    TensorType joined = TypeOf({batch, heads, seq, size});
    joined.strides = {seq * hidden, size, hidden, 1};
    ValueId y =
        Add("aten._scaled_dot_product_flash_attention_for_cpu",
            std::move(operands), {joined, StatsTypeOf({batch, heads, seq})});
    y = Transpose(y, 1, 2);
    y = Reshape(y, {batch, seq, hidden});
    return Linear(absl::StrCat(name, ".out"), y, hidden, hidden);
  }

  ValueId Layer(absl::string_view name, ValueId x) {
    const int64_t hidden = options_.hidden;
    ValueId y = LayerNorm(absl::StrCat(name, ".norm1"), x);
    y = Attention(absl::StrCat(name, ".attention"), y);
    x = Sum(x, y);
    y = LayerNorm(absl::StrCat(name, ".norm2"), x);
    y = Linear(absl::StrCat(name, ".mlp.up"), y, hidden, 4 * hidden);
    y = Add("aten.gelu", {ValueRef{y}});
    y = Linear(absl::StrCat(name, ".mlp.down"), y, 4 * hidden, hidden);
    return Sum(x, y);
  }

  const GenerateOptions& options_;
};

// A training step: each part of the forward pass leaves behind what its
// backward pass does, run in reverse at the end.
class StepBuilder : private OpAdder {
 public:
  StepBuilder(const GenerateOptions& options, const OpRegistry& registry)
      : OpAdder("transformer_step", options.dtype, registry),
        options_(options),
        rows_(options.batch * options.seq) {}

  absl::StatusOr<Program> Build() {
    ValueId x = Input("x", {options_.batch, options_.seq, options_.hidden});
    for (int64_t i = 0; i < options_.layers; ++i) {
      x = Layer(absl::StrCat("layers.", i), x);
    }
    const ValueId squares = Add("aten.mul.Tensor", {ValueRef{x}, ValueRef{x}});
    const ValueId loss = Add("aten.mean", {ValueRef{squares}});
    gradient_ =
        Add("aten.mul.Scalar",
            {ValueRef{x}, 2.0 / static_cast<double>(rows_ * options_.hidden)});
    while (!backward_.empty()) {
      const std::function<void()> step = std::move(backward_.back());
      backward_.pop_back();
      step();
    }
    return OpAdder::Build(loss);
  }

 private:
  // w - rate * gradient.
  void Descend(ValueId weight, ValueId gradient) {
    constexpr double kRate = 1e-3;
    Update(weight, Add("aten.add.Tensor",
                       {ValueRef{weight}, ValueRef{gradient}, -kRate}));
  }

  // x @ weight^T + bias on [batch, seq, in]. Its backward pass turns the
  // gradient of the result, at `*gradient`, into that of x.
  ValueId Linear(absl::string_view name, ValueId x, int64_t in, int64_t out,
                 ValueId* gradient) {
    const LinearValues v = AddLinear(name, x, rows_, in, out);
    backward_.push_back([=, this] {
      const ValueId dy = Reshape(*gradient, {rows_, out});
      const ValueId dx = Add("aten.mm", {ValueRef{dy}, ValueRef{v.weight}});
      const ValueId dy_t = Add("aten.t", {ValueRef{dy}});
      Descend(v.weight, Add("aten.mm", {ValueRef{dy_t}, ValueRef{v.flat}}));
      Descend(v.bias, Add("aten.sum.dim_IntList", {ValueRef{dy}, Ints{0}}));
      *gradient = Reshape(dx, {options_.batch, options_.seq, in});
    });
    return Reshape(v.y, {options_.batch, options_.seq, out});
  }

  ValueId LayerNorm(absl::string_view name, ValueId x) {
    const int64_t hidden = options_.hidden;
    const LayerNormValues v = AddLayerNorm(name, x, hidden);
    backward_.push_back([=, this] {
      const std::vector<ValueId> gradients =
          AddAll("aten.native_layer_norm_backward",
                 {ValueRef{gradient_}, ValueRef{x}, Ints{hidden},
                  ValueRef{v.mean}, ValueRef{v.rstd}, ValueRef{v.weight},
                  ValueRef{v.bias}, std::vector<bool>{true, true, true}},
                 3);
      gradient_ = gradients[0];
      Descend(v.weight, gradients[1]);
      Descend(v.bias, gradients[2]);
    });
    return v.y;
  }

  // [batch, seq, hidden] as [batch, heads, seq, size].
  ValueId Split(ValueId x) {
    const int64_t size = options_.hidden / options_.heads;
    return Transpose(
        Reshape(x, {options_.batch, options_.seq, options_.heads, size}), 1, 2);
  }
  ValueId Join(ValueId x) {
    return Reshape(Transpose(x, 1, 2),
                   {options_.batch, options_.seq, options_.hidden});
  }

  ValueId Attention(absl::string_view name, ValueId x) {
    const int64_t hidden = options_.hidden;
    const int64_t size = hidden / options_.heads;
    TensorType heads =
        TypeOf({options_.batch, options_.heads, options_.seq, size});
    heads.strides = {options_.seq * hidden, size, hidden, 1};
    // The gradients of the three meet at x, which is last in reverse.
    backward_.push_back(
        [this] { gradient_ = Sum(Sum(thirds_[0], thirds_[1]), thirds_[2]); });
    std::vector<ValueId> parts;
    for (const int i : {0, 1, 2}) {
      constexpr const char* kNames[] = {".query", ".key", ".value"};
      parts.push_back(Split(Linear(absl::StrCat(name, kNames[i]), x, hidden,
                                   hidden, &thirds_[i])));
    }
    const std::vector<ValueId> y = AddAll(
        "aten._scaled_dot_product_flash_attention_for_cpu",
        {ValueRef{parts[0]}, ValueRef{parts[1]}, ValueRef{parts[2]}}, 2,
        {heads, StatsTypeOf({options_.batch, options_.heads, options_.seq})});
    backward_.push_back([=, this] {
      const std::vector<ValueId> gradients = AddAll(
          "aten._scaled_dot_product_flash_attention_for_cpu_backward",
          {ValueRef{Split(gradient_)}, ValueRef{parts[0]}, ValueRef{parts[1]},
           ValueRef{parts[2]}, ValueRef{y[0]}, ValueRef{y[1]}, 0.0, false},
          3, {heads, heads, heads});
      for (const int i : {0, 1, 2}) thirds_[i] = Join(gradients[i]);
    });
    return Linear(absl::StrCat(name, ".out"), Join(y[0]), hidden, hidden,
                  &gradient_);
  }

  ValueId Mlp(absl::string_view name, ValueId x) {
    const int64_t hidden = options_.hidden;
    const ValueId up =
        Linear(absl::StrCat(name, ".up"), x, hidden, 4 * hidden, &gradient_);
    const ValueId active = Add("aten.gelu", {ValueRef{up}});
    backward_.push_back([=, this] {
      gradient_ =
          Add("aten.gelu_backward", {ValueRef{gradient_}, ValueRef{up}});
    });
    return Linear(absl::StrCat(name, ".down"), active, 4 * hidden, hidden,
                  &gradient_);
  }

  // x + part(norm(x)); gradients go both ways.
  template <typename Part>
  ValueId Residual(absl::string_view name, ValueId x, Part part) {
    backward_.push_back([this] {
      gradient_ = Sum(gradient_, around_.back());
      around_.pop_back();
    });
    const ValueId y = part(LayerNorm(name, x));
    backward_.push_back([this] { around_.push_back(gradient_); });
    return Sum(x, y);
  }

  ValueId Layer(absl::string_view name, ValueId x) {
    x = Residual(absl::StrCat(name, ".norm1"), x, [&](ValueId y) {
      return Attention(absl::StrCat(name, ".attention"), y);
    });
    return Residual(absl::StrCat(name, ".norm2"), x, [&](ValueId y) {
      return Mlp(absl::StrCat(name, ".mlp"), y);
    });
  }

  const GenerateOptions& options_;
  const int64_t rows_;
  std::vector<std::function<void()>> backward_;
  ValueId gradient_ = kNoValue;  // Of what the next of them takes.
  ValueId thirds_[3] = {};       // Of queries, keys and values.
  std::vector<ValueId> around_;  // Those that went past a part.
};

}  // namespace

absl::StatusOr<Program> GenerateTransformer(const GenerateOptions& options,
                                            const OpRegistry& registry) {
  return TransformerBuilder(options, registry).Build();
}

absl::StatusOr<Program> GenerateTransformerStep(const GenerateOptions& options,
                                                const OpRegistry& registry) {
  return StepBuilder(options, registry).Build();
}

}  // namespace mica
