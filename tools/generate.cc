#include "tools/generate.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/ir/program_builder.h"

namespace mica {
namespace {

constexpr int64_t kMaxOps = 10'000'000;
constexpr int64_t kMaxSize = int64_t{1} << 24;

using Ints = std::vector<int64_t>;

TensorType F32(Dims dims) { return TensorType{.dims = std::move(dims)}; }

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": wants 1 to ", max, ", got ", value));
}

absl::StatusOr<Program> GenerateChain(int64_t ops, const OpRegistry& registry) {
  ProgramBuilder builder(registry, "chain");
  MICA_ASSIGN_OR_RETURN(ValueId last, builder.AddInput("x", F32({1})));
  MICA_ASSIGN_OR_RETURN(const ValueId y, builder.AddInput("y", F32({1})));
  for (int64_t i = 0; i < ops; ++i) {
    MICA_ASSIGN_OR_RETURN(
        last, builder.Add("aten.add.Tensor", {ValueRef{last}, ValueRef{y}}));
  }
  return builder.Build({last});
}

// relu and add in turn. An add takes the last value and one of the eight
// before it, so that lifetimes overlap and some values are read twice.
absl::StatusOr<Program> GenerateReluAdd(int64_t ops,
                                        const OpRegistry& registry) {
  ProgramBuilder builder(registry, "relu_add");
  MICA_ASSIGN_OR_RETURN(const ValueId x, builder.AddInput("x", F32({8, 8})));
  std::vector<ValueId> values = {x};
  uint32_t random = 1;
  for (int64_t i = 0; i < ops; ++i) {
    const ValueRef last{values.back()};
    ValueId next = kNoValue;
    if (i % 2 == 0) {
      MICA_ASSIGN_OR_RETURN(next, builder.Add("aten.relu", {last}));
    } else {
      random = random * 1664525 + 1013904223;
      const size_t back = 1 + (random >> 16) % 8;
      const ValueId other =
          values[values.size() > back ? values.size() - 1 - back : 0];
      MICA_ASSIGN_OR_RETURN(
          next, builder.Add("aten.add.Tensor", {last, ValueRef{other}}));
    }
    values.push_back(next);
  }
  return builder.Build({values.back()});
}

// Appends a transformer's parts to one Program. After an error its functions
// do nothing, so that a model reads as a list of layers; Build() returns the
// first.
class TransformerBuilder {
 public:
  TransformerBuilder(const GenerateOptions& options, const OpRegistry& registry)
      : options_(options), builder_(registry, "transformer") {}

  absl::StatusOr<Program> Build() {
    const Dims dims = {options_.batch, options_.seq, options_.hidden};
    ValueId x = Keep(builder_.AddInput("x", F32(dims)));
    for (int64_t i = 0; i < options_.layers; ++i) {
      x = Layer(absl::StrCat("layers.", i), x);
    }
    x = LayerNorm("norm", x);
    MICA_RETURN_IF_ERROR(status_);
    return builder_.Build({x});
  }

 private:
  ValueId Keep(absl::StatusOr<ValueId> value) {
    if (value.ok()) return *value;
    if (status_.ok()) status_ = value.status();
    return kNoValue;
  }

  ValueId Add(absl::string_view op, Arguments arguments,
              std::vector<TensorType> types = {}) {
    if (!status_.ok()) return kNoValue;
    absl::StatusOr<const OpDef*> def = builder_.FindOp(op);
    if (!def.ok()) return Keep(def.status());
    auto results = builder_.AddOp({.def = *def,
                                   .arguments = std::move(arguments),
                                   .types = std::move(types)});
    if (!results.ok()) return Keep(results.status());
    return (*results)[0];
  }

  ValueId Variable(absl::string_view name, Dims dims) {
    return Keep(builder_.AddVariable("", name, F32(std::move(dims))));
  }

  ValueId Reshape(ValueId x, Ints dims) {
    return Add("aten.view", {ValueRef{x}, std::move(dims)});
  }

  // x @ weight^T + bias, as torch's Linear runs it on [batch, seq, in].
  ValueId Linear(absl::string_view name, ValueId x, int64_t in, int64_t out) {
    const int64_t rows = options_.batch * options_.seq;
    const ValueId weight = Variable(absl::StrCat(name, ".weight"), {out, in});
    const ValueId bias = Variable(absl::StrCat(name, ".bias"), {out});
    const ValueId transposed = Add("aten.t", {ValueRef{weight}});
    const ValueId y =
        Add("aten.addmm", {ValueRef{bias}, ValueRef{Reshape(x, {rows, in})},
                           ValueRef{transposed}});
    return Reshape(y, {options_.batch, options_.seq, out});
  }

  ValueId LayerNorm(absl::string_view name, ValueId x) {
    const int64_t hidden = options_.hidden;
    const ValueId weight = Variable(absl::StrCat(name, ".weight"), {hidden});
    const ValueId bias = Variable(absl::StrCat(name, ".bias"), {hidden});
    return Add(
        "aten.native_layer_norm",
        {ValueRef{x}, Ints{hidden}, ValueRef{weight}, ValueRef{bias}, 1e-5});
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
    TensorType joined = F32({batch, heads, seq, size});
    joined.strides = {seq * hidden, size, hidden, 1};
    ValueId y = Add("aten._scaled_dot_product_flash_attention_for_cpu",
                    std::move(operands), {joined, F32({batch, heads, seq})});
    y = Add("aten.transpose.int", {ValueRef{y}, int64_t{1}, int64_t{2}});
    y = Reshape(y, {batch, seq, hidden});
    return Linear(absl::StrCat(name, ".out"), y, hidden, hidden);
  }

  ValueId Layer(absl::string_view name, ValueId x) {
    const int64_t hidden = options_.hidden;
    ValueId y = LayerNorm(absl::StrCat(name, ".norm1"), x);
    y = Attention(absl::StrCat(name, ".attention"), y);
    x = Add("aten.add.Tensor", {ValueRef{x}, ValueRef{y}});
    y = LayerNorm(absl::StrCat(name, ".norm2"), x);
    y = Linear(absl::StrCat(name, ".mlp.up"), y, hidden, 4 * hidden);
    y = Add("aten.gelu", {ValueRef{y}});
    y = Linear(absl::StrCat(name, ".mlp.down"), y, 4 * hidden, hidden);
    return Add("aten.add.Tensor", {ValueRef{x}, ValueRef{y}});
  }

  const GenerateOptions& options_;
  ProgramBuilder builder_;
  absl::Status status_;
};

absl::Status CheckTransformer(const GenerateOptions& options) {
  MICA_RETURN_IF_ERROR(CheckRange("layers", options.layers, 100'000));
  MICA_RETURN_IF_ERROR(CheckRange("hidden", options.hidden, kMaxSize));
  MICA_RETURN_IF_ERROR(CheckRange("heads", options.heads, options.hidden));
  MICA_RETURN_IF_ERROR(CheckRange("batch", options.batch, kMaxSize));
  MICA_RETURN_IF_ERROR(CheckRange("seq", options.seq, kMaxSize));
  if (options.hidden % options.heads == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("hidden: wants a multiple of ",
                                                 options.heads, " heads, got ",
                                                 options.hidden));
}

}  // namespace

absl::Status CheckOptions(const GenerateOptions& options) {
  if (options.kind == "transformer") return CheckTransformer(options);
  if (options.kind == "chain" || options.kind == "relu_add") {
    return CheckRange("ops", options.ops, kMaxOps);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("generate: wants chain, relu_add or transformer, got '",
                   options.kind, "'"));
}

absl::StatusOr<Program> Generate(const GenerateOptions& options,
                                 const OpRegistry& registry) {
  MICA_RETURN_IF_ERROR(CheckOptions(options));
  if (options.kind == "chain") return GenerateChain(options.ops, registry);
  if (options.kind == "relu_add") return GenerateReluAdd(options.ops, registry);
  return TransformerBuilder(options, registry).Build();
}

}  // namespace mica
