#include "tests/conformance/cases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/op/region_ops.h"
#include "framework/tensor/dtype.h"

namespace mica {
namespace {

// Types for the first, second and third tensor of a pointwise op.
struct PointwiseTypes {
  absl::string_view dtypes[3];
  absl::string_view dims[3];
};

constexpr absl::string_view kShapes[][3] = {
    {"[5,7]", "[5,7]", "[5,7]"},
    {"[1]", "[1]", "[1]"},
    {"[300]", "[300]", "[300]"},
    {"[]", "[]", "[]"},
    {"[3,8,64]", "[64]", "[8,1]"},
    {"[2,5,7]", "[5,1]", "[]"},
    {"[5,7]{1,5}", "[5,7]", "[5,7]{1,5}"},
    {"[6,4]{8,2}", "[6,4]", "[6,1]{3,1}"},
    {"[4,16]", "[4,16]{1,4}", "[1,16]"},
    {"[0,3]", "[3]", "[3]"},
};

constexpr absl::string_view kDTypes[][3] = {
    {"f32", "f32", "f32"},    {"f64", "f64", "f64"},  {"i64", "i64", "i64"},
    {"bool", "bool", "bool"}, {"f32", "i64", "f32"},  {"i64", "f32", "i64"},
    {"i32", "i64", "i32"},    {"bool", "f32", "f32"}, {"bf16", "bf16", "bf16"},
    {"u8", "bool", "u8"},
};

// True for an operand that is a condition by its nature.
bool IsMask(const Param& param) {
  return param.name == "mask" || param.name == "condition";
}

std::string ArgumentText(const Param& param, absl::string_view number) {
  switch (param.kind) {
    case ParamKind::kScalar:
      return std::string(number);
    case ParamKind::kFloat:
      return "0.25";
    case ParamKind::kInt:
      return "1";
    case ParamKind::kString:
      return "";  // The default.
    default:
      return "";
  }
}

std::string PointwiseCall(const OpDef& def, const absl::string_view dtypes[3],
                          const absl::string_view dims[3],
                          absl::string_view number) {
  std::vector<std::string> arguments;
  int tensor = 0;
  for (const Param& param : def.schema().params) {
    if (param.kind == ParamKind::kTensor) {
      const int i = std::min(tensor++, 2);
      arguments.push_back(absl::StrCat(
          param.name, "=", IsMask(param) ? "bool" : dtypes[i], dims[i]));
      continue;
    }
    std::string text = ArgumentText(param, number);
    if (text.empty()) {
      if (param.has_default || param.is_optional) continue;
      text = "none";
    }
    arguments.push_back(absl::StrCat(param.name, "=", text));
  }
  return absl::StrCat(def.name(), "(", absl::StrJoin(arguments, ", "), ")");
}

// Calls that differ in more than operands.
constexpr absl::string_view kMorePointwise[] = {
    "aten.gelu(f32[300], approximate=\"tanh\")",
    "aten.gelu(f64[5,7], approximate=\"tanh\")",
    "aten.gelu_backward(f32[300], f32[300], approximate=\"tanh\")",
    "aten.gelu_backward(f64[5,7], f64[5,7], approximate=\"tanh\")",
    "aten.div.Tensor_mode(f32[5,7], f32[7], rounding_mode=\"floor\")",
    "aten.div.Tensor_mode(f32[5,7], f32[7], rounding_mode=\"trunc\")",
    "aten.div.Tensor_mode(i64[5,7], i64[7]~1..9, rounding_mode=\"floor\")",
    "aten.div.Tensor_mode(i64[5,7], i64[7]~-9..-1, rounding_mode=\"trunc\")",
    "aten.floor_divide(i64[300], i64[300]~1..9)",
    "aten.floor_divide(i64[300], i64[300]~-9..-1)",
    "aten.remainder.Tensor(i64[300], i64[300]~-9..-1)",
    "aten.fmod.Tensor(i64[300], i64[300]~-9..-1)",
    "aten.pow.Tensor_Scalar(f32[300], 0.5)",
    "aten.pow.Tensor_Scalar(f32[300], 3)",
    "aten.pow.Tensor_Scalar(f32[300], -1.5)",
    "aten.pow.Tensor_Scalar(i64[300], 3)",
    "aten.pow.Tensor_Tensor(f32[300]~0..3, f32[300])",
    "aten.clamp(f32[300], -0.5)",
    "aten.clamp(i64[300], max=2)",
    "aten.clamp.Tensor(f32[5,7], none, f32[7])",
    "aten.add.Tensor(f32[4,8], f32[8], alpha=-2.5)",
    "aten.add.Tensor(f32[4,8], f64)",
    "aten.add.Tensor(f32[3,4,5,40]{2400,600,120,1}, f32[4,1,40], alpha=3)",
    "aten.add.Tensor(f32[5,40]{160,2}, f32[5,40]{1,5})",
    "aten.sub.Tensor(f64[2,3,17], f64[2,3,1])",
    "aten.mul.Tensor(i64[7,20,1], i64[7,1,33])",
    "aten.lt.Tensor(f32[6,7,40]{560,80,2}, f32[6,1,40])",
    "aten.logical_and(bool[5,70]{140,2}, bool[70])",
    "aten.clone(f32[7,40]{90,2})",
    "aten.clone(bf16[7,40]{90,2})",
    "aten.clone(u8[3,7,40]{700,100,2})",
    "aten.clone(f64[7,40]{200,3})",
    "aten.cat([f32[30,1], f32[30,1], f32[30,3]], 1)",
    "aten.cat([f32[40000], f32[70000]], 0)",
    "aten.add.Tensor(f32[4,8], f32[8], alpha=f64)",
    "aten.add.Tensor(f32[300], f32[300], alpha=f64)",
    "aten.add.Tensor(f32[4,8], f64, alpha=i64)",
    "aten.add.Tensor(f64[4,8]{1,4}, f64[4,8], alpha=f64)",
    "aten.sub.Tensor(f32[300], f32[300], alpha=f64)",
    "aten.sub.Tensor(f64[300], f64[300], alpha=f64)",
    "aten.rsub.Tensor(f32[4,8], f32[8], alpha=f64)",
    "aten.addcmul(f32[300], f32[300], f32[300], value=f64)",
    "aten.addcdiv(f32[300], f32[300], f32[300]~0.5..2, value=f64)",
    "aten.lerp.Scalar(f32[300], f32[300], f64~0..1)",
    "aten.lerp.Scalar(f64[4,8], f64[8], 0.9)",
    "aten.div.Scalar(f32[300], f64~0.5..2)",
    "aten.pow.Tensor_Scalar(f32[300]~0..2, f64)",
    "aten.fill.Scalar(f32[4,8], f64)",
    "aten.clamp(f32[300], f64~-1..0, f64~0..1)",
    "aten.add.Tensor(f32[4,8], i64)",
    "aten.add.Tensor(bf16[300], bf16[300])",
    "aten.add.Tensor(bf16[3,5,70], bf16[70])",
    "aten.sub.Tensor(bf16[1,70], bf16[5,70])",
    "aten.sub.Tensor(bf16[5,1], bf16[5,70])",
    "aten.div.Tensor(f16[3,5,4500], f16[3,5,1]~0.5..2)",
    "aten.mul.Tensor(bf16[3,5,70], bf16[3,5,70]{5,1,0})",
    "aten.add.Tensor(f16[5,1]{70,1}, f16[70])",
    "aten.maximum(f16[3,1,70], f16[3,5,70])",
    "aten.sub.Tensor(f16[300], f16[300])",
    "aten.div.Tensor(f16[5,70]{1,5}, f16[5,70]{1,5}~0.5..2)",
    "aten.mul.Tensor(f64, f32[4,8])",
    "aten.mul.Tensor(i64[4,8], f64)",
    "aten.mul.Tensor(f64, f64)",
    "aten.div.Tensor(i64[4,8], i64~1..9)",
    "aten.sub.Tensor(f64, f32[300])",
    "aten.mul.Scalar(f32[4,8], f64)",
    "aten.eq.Tensor(i64[300], i64)",
    "aten.lt.Scalar(i64[300], 2)",
    "aten.where.self(bool[5,1], f32[7], f32[])",
    "aten.where.self(bool[5,7], i64[5,7], f64)",
    "aten.where.self(bool[5,7], f64, f64)",
    "aten.masked_fill.Scalar(f32[2,3,5,5], bool[2,1,1,5], -1e9)",
    "aten.masked_fill.Tensor(f32[4,5], bool[4,5]{1,4}, f32[])",
    "aten.bitwise_and.Scalar(bool[5,7], true)",
    "aten.bitwise_or.Scalar(bool[5,7], false)",
    "aten.bitwise_xor.Scalar(bool[5,7], true)",
    "aten.copy(f32[5,7], i64[7])",
    "aten.clone(bool[70,150]{1,70})",
    "aten.clone(f16[2,67,40]{2680,1,67})",
    "aten.clone(bf16[2,40,67]{2680,1,40})",
    "aten.clone(f32[33,50]{1,33})",
    "aten.clone(f64[20,50]{1,20})",
    "aten._to_copy(f32[5,7], dtype=i64)",
    "aten._to_copy(f32[5,7], dtype=bool)",
    "aten._to_copy(i64[5,7]{1,5}, dtype=f32)",
    "aten._to_copy(bool[300], dtype=f32)",
    "aten._to_copy(f32[300], dtype=f16)",
    "aten._to_copy(f32[300], dtype=bf16)",
    "aten._to_copy(f16[300], dtype=f32)",
    "aten._to_copy(f64[300], dtype=f32)",
    "aten._to_copy(bf16[300], dtype=f32)",
    "aten._to_copy(f16[5,7]{1,5}, dtype=f32)",
    "aten.round.decimals(f32[300], decimals=-1)",
};

constexpr absl::string_view kListed[] = {
    // Sizes that data decides.
    "mica.nonzero(f32[300])",
    "mica.nonzero(bool[5,7])",
    "mica.nonzero(i64[3,4,5])",
    "mica.nonzero(bool[3,4,5]{1,3,12})",
    "mica.nonzero(bool[])",
    "mica.nonzero(bool[0,4])",
    "mica.nonzero(f64[2,3])",
    "mica.nonzero(i32[9])",
    "mica.masked_select(f32[300], bool[300])",
    "mica.masked_select(f64[5,7], bool[5,7])",
    "mica.masked_select(i64[5,7], bool[7])",
    "mica.masked_select(f32[5,1], bool[1,7])",
    "mica.masked_select(bf16[40], bool[40])",
    "mica.masked_select(bool[40], bool[40])",
    "mica.masked_select(f32[0], bool[0])",
    "mica.masked_select(f32[], bool[])",
    // Products.
    "aten.mm(f32[5,7], f32[7,3])",
    "aten.mm(f32[5,7]{1,5}, f32[7,3]{1,7})",
    "aten.mm(f32[64,96], f32[96,80]{1,96})",
    "aten.mm(f32[33,17], f32[17,65])",
    "aten.mm(f64[5,7], f64[7,3])",
    "aten.mm(i64[5,7], i64[7,3])",
    "aten.mm(f32[5,0], f32[0,3])",
    "aten.mm(f32[0,4], f32[4,3])",
    "aten.mm(f32[1,64], f32[64,64]{1,64})",
    "aten.mm(f32[1,131], f32[131,150])",
    "aten.addmm(f32[3], f32[5,7], f32[7,3])",
    "aten.addmm(f32[1], f32[50,7], f32[7,1])",
    "aten.addmm(f32[150], f32[1,131]{1,1}, f32[131,150])",
    "aten.addmm(f32[128], f32[24,64], f32[64,128]{1,64})",
    "aten.addmm(f32[5,1], f32[5,7], f32[7,3], beta=0.5, alpha=2)",
    "aten.addmm(f32[5,3], f32[5,7], f32[7,3], beta=0)",
    "aten.addmm(f64[5,3]{1,5}, f64[5,7], f64[7,3])",
    "aten.addmm(i64[3], i64[5,7], i64[7,3])",
    "aten.bmm(f32[4,5,7], f32[4,7,3])",
    "aten.bmm(f32[1,1,131], f32[1,131,150])",
    "aten.bmm(f32[4,5,7]{7,28,1}, f32[4,7,3]{21,1,7})",
    "aten.bmm(f32[12,16,16], f32[12,16,32]{512,1,16})",
    "aten.bmm(f64[2,3,4], f64[2,4,5])",
    "aten.baddbmm(f32[4,5,3], f32[4,5,7], f32[4,7,3], alpha=0.5)",
    "aten.baddbmm(f32[1,3], f32[4,5,7], f32[4,7,3], beta=0)",
    "aten.baddbmm(f32[4,5,3], f32[4,5,7], f32[4,7,3])",
    "aten.baddbmm(f32[1,1,150], f32[1,1,131], f32[1,131,150])",
    "aten.baddbmm(f32[4,16,16], f32[4,16,32], f32[4,32,16]{512,1,32})",
    "aten.mv(f32[5,7], f32[7])",
    "aten.mv(f64[5,7]{1,5}, f64[7]{2})",
    "aten.addmv(f32[5], f32[5,7], f32[7], beta=2)",
    "aten.dot(f32[9], f32[9])",
    "aten.dot(i64[9]{2}, i64[9])",
    "aten.vdot(f32[9], f32[9])",
    "mica.linear(f32[5,7], f32[3,7], none, none, \"none\")",
    "mica.linear(f32[1,131], f32[150,131]{1,150}, f32[150], none, \"none\")",
    "mica.linear(f32[2,5,64], f32[48,64], f32[48], none, \"gelu\")",
    "mica.linear(f32[33,64], f32[128,64], f32[128], none, \"gelu_tanh\")",
    "mica.linear(f32[33,64], f32[128,64]{1,128}, none, f32[33,128], \"none\")",
    "mica.linear(f32[8,64], f32[64,64], f32[64], f32[8,64], \"relu\")",
    "mica.linear(f32[8,64], f32[64,64], f32[64], none, \"relu\")",
    "mica.linear(f32[1,16], f32[4,16], f32[4], none, \"tanh\")",
    "mica.linear(f32[6,16], f32[4,16], f32[4], none, \"sigmoid\")",
    "mica.linear(f32[6,16], f32[4,16], f32[4], none, \"silu\")",
    "mica.linear(f64[6,16], f64[4,16], f64[4], none, \"gelu\")",
    "mica.quantise_int8(f32[5,70])",
    "mica.quantise_int8(f32[70,33]{1,70})",
    "mica.int8_linear(f32[5,7], i8[3,7]~-127..127, f32[3], none, none, "
    "\"none\", true)",
    "mica.int8_linear(f32[2,5,131], i8[150,131]~-127..127, f32[150], f32[150], "
    "none, \"gelu\", true)",
    "mica.int8_linear(f32[33,64], i8[48,64]~-127..127, f32[48], none, "
    "f32[33,48], \"relu\", true)",
    "mica.int8_linear(f32[0,64], i8[48,64], f32[48], none, none, \"none\", "
    "true)",
    "mica.int8_linear(f32[3,64]{1,3}, i8[48,64], f32[48], none, none, "
    "\"none\", true)",
    "mica.int8_linear(f32[1,131], i8[150,131]~-127..127, f32[150], f32[150], "
    "none, \"tanh\", false)",
    "mica.int8_linear(f32[7,64], i8[48,64]~-127..127, f32[48], f32[48], "
    "f32[7,48], \"none\", false)",
    "mica.int8_linear(f32[2,17,65], i8[150,65]~-127..127, f32[150], f32[150], "
    "f32[2,17,150], \"silu\", false)",
    "mica.int8_linear(f32[3,0], i8[5,0], f32[5], f32[5], none, \"none\", "
    "false)",
    "mica.quantise_int4(f32[5,70], 32)",
    "mica.quantise_int4(f32[33,35]{1,33}, 8)",
    "mica.int4_linear(f32[5,7], u8[3,4]~0..255, f32[3,1], f32[3,1], none, "
    "none, \"none\", 32)",
    "mica.int4_linear(f32[1,131], u8[150,66]~0..255, f32[150,5], f32[150,5], "
    "f32[150], none, \"gelu\", 32)",
    "mica.int4_linear(f32[7,64], u8[48,32]~0..255, f32[48,1], f32[48,1], none, "
    "f32[7,48], \"none\", 128)",
    "mica.int4_linear(f32[2,17,65], u8[150,33]~0..255, f32[150,9], f32[150,9], "
    "f32[150], f32[2,17,150], \"relu\", 8)",
    "mica.int4_linear(f32[1,12], u8[5,6]~0..255, f32[5,3], f32[5,3], none, "
    "none, \"none\", 4)",
    // Regions.
    "mica.elementwise([f32[300], f32[300], f64], \"mul.f32 %0 0.5; lerp.f32 "
    "$0 %1 %2; sqrt.f32 %1; div.f32 $1 3 -> $1 $3\")",
    "mica.elementwise([f32[40,50]{1,40}, f32[40,50]{1,40}, f32[]], "
    "\"sub_scaled.f32 %0 %1 %2; addcmul.f32 $0 %0 %1 2; add.f32 %2 $1; "
    "addcdiv.f32 $2 $2 %0 0.5; tanh.f32 %1 -> $3 $4 $2\")",
    "mica.elementwise([f64[5,700], f64[5,700], f64, i64], \"add_scaled.f64 %0 "
    "%1 %2; maximum.f64 $0 %3; mul.f64 $1 $1; neg.f64 $2; abs.f64 $3; "
    "relu.f64 %0; exp.f64 %0; minimum.f64 $6 $5; reciprocal.f64 %1; rsqrt.f64 "
    "$4; sigmoid.f64 %0; silu.f64 %0; cube.f64 $11; square.f64 $10; "
    "tanh_backward.f64 $13 $12; sub.f64 1 $14 -> $7 $15 $9 $8\")",
    "mica.elementwise([f32[], f32[]], \"add.f32 %0 1 -> $0\")",
    "mica.elementwise([bf16[7], bf16[7]], \"add.bf16 %0 %1 -> $0\")",
    "mica.elementwise([bf16[7,33], f32[33], i32[7,1]], \"mul.bf16 %0 %1; "
    "add.f32 $0 %2; lt.i32 %2 3; where.f16 $2 $1 7 -> $3 $2\")",
    "mica.elementwise([i8[65], u8[65], bool[65]], \"mul.i8 %0 %1; xor.u8 $0 "
    "%1; not.bool %2; and.bool $2 $1; cast.i16 $0 -> $3 $1 $4\")",
    "mica.elementwise([f32[6,1,9], f32[4,1]{1,4}], \"hypot.f32 %0 %1; "
    "atan2.f32 $0 %0 -> $1\")",
    "mica.reduce([f32[7,300]], \"sum.f32 %0 -> $0 over 1\")",
    "mica.reduce([f32[7,300], f32[300]], \"mul.f32 %0 %1; mean.f32 $0 0; "
    "sub.f32 $0 $1; square.f32 $2; mean.f32 $3 1; add.f32 $4 0.1; rsqrt.f32 "
    "$5; mul.f32 $2 $6 -> $7 $1 $4 over 1\")",
    "mica.reduce([f32[3,5,40]], \"amax.f32 %0; sub.f32 %0 $0; exp.f32 $1; "
    "sum.f32 $2; div.f32 $2 $3 -> $4 over 2\")",
    "mica.reduce([f32[3,5,40]], \"amax.f32 %0; sub.f32 %0 $0; exp.f32 $1; "
    "sum.f32 $2; div.f32 $2 $3 -> $4 $2 over 1\")",
    "mica.reduce([f32[300,40], f32[40]], \"mul.f32 %0 %1; sum.f32 $0; amin.f32 "
    "%0; exp.f32 $0; mul.f32 $3 $2 -> $1 $0 $2 $4 over 0\")",
    "mica.reduce([f32[6,7,8]{1,48,6}, f32[7,1]], \"add.f32 %0 %1; sum.f32 "
    "$0; mean.f32 $0 2; sub.f32 $0 $2; mul.f32 $3 %1 -> $1 $4 over 0 2\")",
    "mica.reduce([f32[3,40000]], \"square.f32 %0; mean.f32 $0 0; sqrt.f32 $1; "
    "div.f32 %0 $2; sum.f32 $3 -> $3 $4 $2 over 1\")",
    "mica.reduce([f32[100000], f32[]], \"mul.f32 %0 %1; sum.f32 $0 -> $1 over "
    "0\")",
    "mica.reduce([f32[40,3,60], f32[3,1]], \"sub.f32 %0 %1; square.f32 $0; "
    "sum.f32 $1; amax.f32 %0; gt.f32 %0 $3 -> $2 $4 $0 over 0 2\")",
    "mica.reduce([bf16[5,70], bf16[70]], \"mul.bf16 %0 %1; sum.bf16 $0; "
    "amax.bf16 $0; div.f32 $0 $1 -> $3 $2 $1 over 1\")",
    "mica.reduce([f16[70,9]], \"mean.f16 %0 0; sub.f32 %0 $0 -> $1 $0 over "
    "0\")",
    "mica.reduce([f64[5,70], i64[5,1]], \"mul.f64 %0 %1; sum.f64 $0; amin.f64 "
    "$0; sub.f64 $0 $2 -> $3 $1 over 1\")",
    "mica.reduce([bool[9,33], u8[9,33], i8[33]], \"sum.i64 %0; amax.bool %0; "
    "amin.u8 %1; sum.i8 %2; amax.i16 %2; cast.f32 $0 -> $0 $1 $2 $5 over 1\")",
    "mica.reduce([i32[64,7], i64[1]], \"sum.i32 %0; add.i64 $0 %1; amax.i32 "
    "%0; eq.i32 %0 $2 -> $1 $3 $0 over 0\")",
    "mica.reduce([f32[4,6]], \"sum.f32 %0 -> $0 over 0 1\")",
    "mica.reduce([f32[5,1], f32[5,1]], \"mul.f32 %0 %1; sum.f32 $0; amax.f32 "
    "%1; tanh.f32 $1 -> $3 $2 $0 over 1\")",
    "mica.reduce([f32[1,1]], \"sum.f32 %0; div.f32 %0 $0 -> $1 $0 over 1\")",
    // Steps of optimizers.
    "mica.adam_step(f32[300], f32[300], f32[300], f32[300]~0..2, f32[]~1..9, "
    "f64~0..1, 0.9, 0.999, 0.01, 1e-8)",
    "mica.adam_step(f32[5,7], f32[5,7], f32[5,7], f32[5,7]~0..2, f32[]~1..9, "
    "0.01, 0.4, 0.999, f64~0..1, 1e-3, maximize=true, is_decoupled=true)",
    "mica.adam_step(f64[5,7]{1,5}, f64[5,7]{1,5}, f64[5,7]{1,5}, "
    "f64[5,7]{1,5}~0..2, f32[]~1..9, f32[]~0..1, 0.9, 0.999, 0, 1e-8)",
    "mica.adam_step(f32[5,7], f32[5,7]{1,5}, f32[5,7], f32[5,7]~0..2, "
    "f32[]~1..9, 0.01, 0.9, 0.999, 0, 1e-8)",
    "mica.sgd_step(f32[300], f32[300], none, 0, 0, f64~0..1, 0)",
    "mica.sgd_step(f32[5,7], f32[5,7], f32[5,7], 0.1, 0.9, f64~0..1, 0.2, "
    "nesterov=true, maximize=true)",
    "mica.sgd_step(f64[300], f64[300], f64[300], 0.1, 0.9, 0.1, 0, "
    "is_first_step=true)",
    // Host scalars.
    "mica.scalar_add(f64, 2.5)",
    "mica.scalar_add(f32, i64)",
    "mica.scalar_sub(1, f64)",
    "mica.scalar_mul(f64, f64)",
    "mica.scalar_div(f64, f64~0.5..2)",
    "mica.scalar_div(i64, 0)",
    "mica.scalar_pow(0.9, i64~1..9)",
    "mica.scalar_pow(f64~0..2, f64)",
    "mica.scalar_exp(f64~0..2)",
    "mica.scalar_log(f64~0.5..2)",
    "mica.scalar_log10(f64~0.5..2)",
    "mica.scalar_log2(f64~0.5..2)",
    "mica.scalar_tanh(f64)",
    "mica.scalar_cos(f64)",
    "mica.scalar_sin(f64)",
    "mica.size(7)",
    "mica.int_add(i64, 2)",
    "mica.int_sub(1, i64)",
    "mica.int_mul(i64, i64)",
    "mica.int_floordiv(i64, 3)",
    "mica.int_floordiv(i64, 0)",
    "mica.int_mod(i64, -3)",
    "mica.int_pow(i64, 2)",
    "mica.int_abs(i64)",
    "mica.int_max(i64, i64)",
    "mica.int_min(i64, 3)",
    "mica.int_floor(f64)",
    "mica.int_ceil(f64)",
    "mica.int_trunc(f64)",
    "mica.int_round(f64)",
    "mica.scalar_abs(f64)",
    "mica.scalar_round(f64, 2)",
    "mica.scalar_floordiv(f64, f64~0.5..2)",
    "mica.scalar_max(f64, f64)",
    "mica.scalar_min(f64, f64)",
    "mica.scalar_mod(f64, f64~0.5..2)",
    "mica.scalar_lt(f64, f64)",
    "mica.scalar_le(f64, f64)",
    "mica.scalar_le(i64, 2)",
    "mica.scalar_eq(f64, f64)",
    "mica.scalar_eq(1, i64)",
    "mica.scalar_neg(i64)",
    "mica.scalar_sqrt(f64~0..2)",
    // Reductions.
    "aten.sum(f32[5,7])",
    "aten.sum(i64[5,7])",
    "aten.sum(bool[5,7])",
    "aten.sum(f32[0])",
    "aten.sum(f32[3,4], dtype=f64)",
    "aten.sum.dim_IntList(f32[5,7,3], [1])",
    "aten.sum.dim_IntList(f32[5,70], [-1], true)",
    "aten.sum.dim_IntList(f32[5,7,3], [0,2])",
    "aten.sum.dim_IntList(f32[5,7]{1,5}, [1])",
    "aten.sum.dim_IntList(f32[5,7], none)",
    "aten.sum.dim_IntList(f64[5,7], [0])",
    "aten.sum.dim_IntList(i64[5,7], [0], dtype=f32)",
    "aten.sum.dim_IntList(bool[5,7], [1])",
    "aten.sum.dim_IntList(f32[5,0], [1])",
    "aten.nansum(f32[5,7], [1])",
    "aten.aminmax(f32[5,7], dim=1)",
    "aten.aminmax(i64[5,7])",
    "aten.mean(f32[5,7])",
    "aten.mean(f64[5,7])",
    "aten.mean.dim(f32[5,7,64], [-1], true)",
    "aten.mean.dim(f32[5,7,3], [1])",
    "aten.mean.dim(f32[5,7]{1,5}, [0])",
    "aten.mean.dim(i64[5,7], [0], dtype=f32)",
    "aten.prod(f32[6])",
    "aten.prod(i64[6])",
    "aten.prod.dim_int(f32[5,7], 1)",
    "aten.count_nonzero(i64[5,7])",
    "aten.count_nonzero(f32[5,7], 1)",
    "aten.count_nonzero.dim_IntList(bool[5,7,2], [0,2])",
    "aten.max(f32[5,7])",
    "aten.max(i64[5,7])",
    "aten.min(f32[5,7])",
    "aten.amax(f32[5,7], [1])",
    "aten.amax(f32[5,70], [-1], true)",
    "aten.amax(i64[5,7,2], [0,2], true)",
    "aten.amin(f64[5,7], [0])",
    "aten.max.dim(f32[5,7], 1)",
    "aten.max.dim(i64[5,7], 0, true)",
    "aten.min.dim(f32[5,7]{1,5}, -1)",
    "aten.min.dim(f32[5,70], 1)",
    "aten.argmax(f32[5,7])",
    "aten.argmax(i32[50,70], 1)",
    "aten.min.dim(i64[50,170], -1)",
    "aten.argmax(f32[5,7], 1, true)",
    "aten.argmin(i64[5,7], 0)",
    "aten.argmin(f32[5,70], 1)",
    "aten.max.dim(f16[7,3,700], 2)",
    "aten.min.dim(bf16[70,150], -1, true)",
    "aten.argmax(bf16[5,3,900], -1)",
    "aten.argmin(f16[3,2500], 1, true)",
    "aten.any(bool[5,7])",
    "aten.any(f32[5,7])",
    "aten.any.dim(bool[5,7], 1)",
    "aten.any.dims(bool[5,7], [0,1], true)",
    "aten.all(bool[5,7])",
    "aten.all.dim(i64[5,7], 0, true)",
    "aten.all.dims(bool[5,7], [1])",
    "aten.var.correction(f32[5,7], [1])",
    "aten.var.correction(f32[5,7], none, correction=0)",
    "aten.var.correction(f32[5,70], [-1], correction=1, keepdim=true)",
    "aten.std.correction(f64[5,7], [0], correction=0)",
    "aten.var_mean.correction(f32[5,7,3], [1,2], correction=0)",
    "aten.std_mean.correction(f32[5,7], [1])",
    "aten.linalg_vector_norm(f32[5,7])",
    "aten.linalg_vector_norm(f32[5,7], 1, [1])",
    "aten.linalg_vector_norm(f32[5,7], 3.5, [-1], true)",
    "aten.norm.Scalar(f32[5,7])",
    "aten.norm.ScalarOpt_dim(f32[5,7], 2, [1], true)",
    "aten.logsumexp(f32[5,7], [1])",
    "aten.logsumexp(f32[64,3,70], [-1,1])",
    "aten.logsumexp(f32[64,70], [0], true)",
    "aten.logsumexp(f64[5,7,2], [0,2], true)",
    "aten.cumsum(f32[5,7], 1)",
    "aten.cumsum(i64[5,7], 0)",
    "aten.cumsum(bool[5,7], -1)",
    "aten.cumprod(f32[5,7], 0)",
    "aten.sort(f32[5,7])",
    "aten.sort(i64[5,7], 0, true)",
    "aten.sort.stable(f32[5,7], stable=true, dim=1, descending=true)",
    "aten.topk(f32[5,7], 3)",
    "aten.topk(i64[5,7], 2, 0, false)",
    // Copies.
    "aten._local_scalar_dense(i64[])",
    "aten._local_scalar_dense(bool[1])",
    "aten._local_scalar_dense(f32[1,1])",
    "aten.tril(f32[5,7])",
    "aten.tril(f32[3,40,30], -2)",
    "aten.tril(bool[2,5,5], 1)",
    "aten.triu(f64[5,7], -1)",
    "aten.repeat(f32[2,3], [2,1,3])",
    "aten.repeat(i64[], [4])",
    "aten.flip(f32[2,3,4], [0,2])",
    "aten.flip(f32[3,5,70], [0,2])",
    "aten.flip(bf16[3,5,70], [1])",
    "aten.flip(i64[300], [-1])",
    "aten.flip(f32[], [0])",
    "aten.roll(f32[2,5], [2], [1])",
    "aten.roll(f32[2,5], [-3])",
    "aten.roll(f32[7,40], [3], [0])",
    "aten.roll(bf16[3,7,40], [-9], [2])",
    "aten.roll(f32[3,70], [-75])",
    "aten.constant_pad_nd(f32[2,3], [1,2])",
    "aten.constant_pad_nd(f32[1,70,6,5]{2100,1,350,70}, [1,2,3,0], -1)",
    "aten.constant_pad_nd(f64[2,3,4,5], [0,2,1,0,2,2], 0.25)",
    "aten.constant_pad_nd(i64[2,3,4], [1,1], 7)",
    "aten.constant_pad_nd(bool[3,4], [1,0,0,2], 1)",
    "aten.constant_pad_nd(f32[2,0,3], [0,1,2,3], 2.5)",
    "aten.constant_pad_nd(f32[4,3], [-1,2,1,-2], 1.5)",
    "aten.constant_pad_nd(f32[1,70,6,5]{2100,1,350,70}, [-1,2,-3,-1], 2)",
    "aten.constant_pad_nd(f32[4,3], [-2,-1,1,1], 1.5)",
    "aten.cat([f32[2,3], f32[4,3]])",
    "aten.cat([f32[2,3], f32[2,5]{1,2}, f32[2,1]], 1)",
    "aten.cat([f32[2,3,64], f32[2,5,64]], 1)",
    "aten.cat([f32[0], f32[2,3]], 0)",
    "aten.cat([f32[2,3,64]{192,1,3}, f32[2,5,64], f32[2,4,64]{1,128,2}], 1)",
    "aten.cat([i64[2,3]{1,2}, i64[2,0], i64[2,2]], -1)",
    "aten.cat([i64[2], f32[3]])",
    "aten.cat([i64[70,1], i64[70,1]], 1)",
    "aten.cat([f32[7,5,1], f32[7,5,1], f32[7,5,1]], -1)",
    "aten.cat([bf16[70,1], bf16[70,1], bf16[70,1], bf16[70,1]], 1)",
    "aten.cat([bool[70,1], bool[70,1]], 1)",
    "aten.cat([f32[1], f32[1]], 0)",
    "aten.cat([i64[70,1], i64[70,0], i64[70,1]], 1)",
    "aten.stack([i64[70], i64[70]], 1)",
    "aten.stack([f32[7,5]{1,7}, f32[7,5], f32[7,5]], -1)",
    "aten.gather(f32[90,40], 1, i64[90,30]~0..39)",
    "aten.gather(i64[3,5,2000], -1, i64[3,5,1500]~0..1999)",
    "aten.cat([bool[2], bool[3]])",
    "aten.stack([f32[2,3], f32[2,3]{1,2}], 1)",
    "aten.stack([i64[], i64[]])",
    "aten.stack([f32[4,32], f32[4,32], f32[4,32]])",
    "aten.stack([f64[3,5]{1,3}, f64[3,5]], -1)",
    "aten.stack([f32[0,5], f32[0,5]], 1)",
    // Factories.
    "aten.zeros([2,3])",
    "aten.zero(f32[2,3])",
    "aten.zeros_like(i64[2,3])",
    "aten.new_zeros(f32[2], [3], dtype=i64)",
    "aten.ones([2,3], dtype=bool)",
    "aten.ones_like(f32[2,3]{1,2})",
    "aten.new_ones(f64[2], [2,2])",
    "aten.full([2,3], 1.5)",
    "aten.full([2,3], 7)",
    "aten.full([2,3], true)",
    "aten.full([2,3], f64)",
    "aten.full([], -inf, dtype=f32)",
    "aten.full_like(f32[2,3], 2)",
    "aten.new_full(f32[2], [3], 4)",
    "aten.scalar_tensor(2.5)",
    "aten.scalar_tensor(i64, dtype=i64)",
    "aten.arange(5)",
    "aten.arange(2.5)",
    "aten.arange.start(2, 9)",
    "aten.arange.start(1, 4, dtype=f32)",
    "aten.arange.start_step(9, 1, -3)",
    "aten.arange.start_step(0, 1, 0.25, dtype=f64)",
    "aten.linspace(0, 1, 7)",
    "aten.linspace(3, -3, 1)",
    "aten.linspace(3.5, -9, 5, dtype=i64)",
    "aten.eye(4)",
    "aten.eye.m(3, 5, dtype=i64)",
    // Reading and writing by index.
    "aten.index.Tensor(f32[5,7], [i64[4]~-5..4])",
    "aten.index.Tensor(f32[5,7], [none, i64[2,3]~0..6])",
    "aten.index.Tensor(f32[5,7,3], [i64[4,1]~0..4, none, i64[2]~0..2])",
    "aten.index.Tensor(i64[5,7], [i64[3]~0..4, i64[3]~0..6])",
    "aten._unsafe_index.Tensor(f32[5,7], [none, i64[2]~0..6])",
    "aten.index_select(f32[5,7], 1, i64[4]~0..6)",
    "aten.index_select(f32[5,64], 0, i64[4]~0..4)",
    "aten.gather(f32[5,7], 1, i64[5,3]~0..6)",
    "aten.gather(f32[5,7,3], 0, i64[2,7,1]~0..4)",
    "aten.take(f32[5,7], i64[4]~-35..34)",
    "aten.scatter.src(f32[5,7], 0, i64[1,7]~0..4, f32[1,7])",
    "aten.scatter.value(f32[5,7], 1, i64[5,2]~0..6, 2)",
    "aten.scatter.value(i64[5,7], 1, i64[5,1]~0..6, 1)",
    "aten.scatter.value(bf16[0,1099511627776], 0, i64[0], 1)",
    "aten.scatter_add(f32[5,7], 1, i64[5,9]~0..6, f32[5,9])",
    "aten.scatter_reduce.two(f32[5,7], 1, i64[5,9]~0..6, f32[5,9], \"mean\")",
    "aten.scatter_reduce.two(f32[5,7], 0, i64[9,7]~0..4, f32[9,7], \"amax\", "
    "include_self=false)",
    "aten.index_add(f32[5,7], 0, i64[3]~0..4, f32[3,7], alpha=2)",
    "aten.index_copy(f32[5,7], 1, i64[1]~0..6, f32[5,1])",
    "aten.index_fill.int_Scalar(f32[5,7], 1, i64[3]~0..6, 1.5)",
    "aten.index_put(f32[5,7], [i64[1]~-5..4], f32[7])",
    "aten.index_put(f32[5,7], [none, i64[9]~0..6], f32[5,9], true)",
    "aten.index_put(f32[5,7], [bool[5,7]], f32[])",
    "aten.index_put(f32[5,7], [bool[5]], f32[1])",
    "aten.slice_scatter(f32[5,7], f32[5,3], 1, 1, 7, 2)",
    "aten.select_scatter(f32[5,7], f32[7], 0, -1)",
    "aten.slice_scatter(i64[3,5,7], i64[3,2,7], 1, 2, 4)",
    "aten.slice_scatter(f32[5,7], f32[1], 0, 4, 4)",
    "aten.select_scatter(f64[4,5,7]{1,28,4}, f64[4,7]{7,1}, 1, 2)",
    "aten.select_scatter(bool[5,7], bool[5], 1, 3)",
    "aten.diagonal_scatter(f32[5,7], f32[5], 1)",
    "mica.scatter_view(f32[5,7], f32[2,3], [2,3], [14,2], 1)",
    "mica.scatter_view(f32[5,7]{1,5}, f32[7], [7], [5], 2)",
    "mica.scatter_view(f32[4,12], f32[4,3], [4,3], [12,1], 6)",
    "mica.scatter_view(bf16[4,3,5], bf16[2,3,5]{1,10,2}, [2,3,5], [15,5,1], "
    "15)",
    "mica.scatter_view(f64[6], f64[2,3], [2,3], [3,1], 0)",
    "mica.window_at(f32[5,7], [2,3], [14,2], f64~0..16)",
    "mica.window_at(i64[4,12], [4,3], [12,1], f64~0..9)",
    "mica.window_at(bf16[4,3,5]{1,20,4}, [3,5], [20,4], f64~0..3)",
    "mica.window_at(f32[5,7], [0,3], [14,2], f64~0..35)",
    "mica.write_window_at(f32[5,7], f32[2,3], [2,3], [14,2], f64~0..16)",
    "mica.write_window_at(f32[5,7]{1,5}, f32[7], [7], [5], f64~0..4)",
    "mica.write_window_at(bool[4,12], bool[3], [4,3], [12,1], f64~0..9)",
    "mica.write_window_at(bf16[4,3,5], bf16[2,3,5]{1,10,2}, [2,3,5], "
    "[15,5,1], f64~0..30)",
    "aten.index_put(f32[5,7,3], [none, i64[2,2]~-7..6], f32[5,2,2,3])",
    "aten.index_put(i64[5,7,3], [none, i64[2]~-7..6], i64[3])",
    "aten.index_copy(bf16[5,7,3], 1, i64[4]~0..6, bf16[5,4,3])",
    "aten.index.Tensor(f32[5,7,3], [none, i64[2,2]~-7..6])",
    "mica.send(f32[5,7], 1)",
    "mica.send(i64[5,7]{1,5}, 1)",
};

// Results of any contents: nothing to compare.
constexpr absl::string_view kEmpty[] = {
    "aten.empty.memory_format([2,3])",
    "aten.empty_like(f32[2,3])",
    "aten.new_empty(f32[2], [3])",
    "aten.empty_strided([2,3], [1,2])",
    "aten.new_empty_strided(f32[2], [2,3], [1,2])",
};

}  // namespace

namespace {

// Each operator of regions by itself, in each dtype that it has.
void AddRegionCases(std::vector<std::string>* cases) {
  for (const RegionOp& op : RegionOps()) {
    for (DType dtype : kRealDTypes) {
      if (!op.Has(dtype)) continue;
      std::vector<std::string> operands, refs;
      for (int i = 0; i < op.arity; ++i) {
        operands.push_back(absl::StrCat(DTypeName(dtype), "[5,17]"));
        refs.push_back(absl::StrCat("%", i));
      }
      cases->push_back(absl::StrCat(
          "mica.elementwise([", absl::StrJoin(operands, ", "), "], \"", op.name,
          ".", DTypeName(dtype), " ", absl::StrJoin(refs, " "), " -> $0\")"));
    }
  }
}

}  // namespace

void AddCallsOf(const OpDef& def, absl::Span<const absl::string_view> texts,
                std::vector<std::string>* cases) {
  const std::string call = absl::StrCat(def.name(), "(");
  for (const absl::string_view text : texts) {
    if (absl::StartsWith(text, call)) cases->emplace_back(text);
  }
}

std::vector<std::string> PointwiseCases(const OpDef& def) {
  std::vector<std::string> cases = TrainingCases(def);
  for (const auto& dtypes : kDTypes) {
    for (const auto& dims : kShapes) {
      cases.push_back(PointwiseCall(def, dtypes, dims, "2"));
    }
    cases.push_back(PointwiseCall(def, dtypes, kShapes[0], "0.5"));
  }
  AddCallsOf(def, kMorePointwise, &cases);
  return cases;
}

std::vector<std::string> ListedCases(const OpDef& def) {
  std::vector<std::string> cases = TrainingCases(def);
  if (def.name() == "mica.elementwise") AddRegionCases(&cases);
  AddCallsOf(def, kListed, &cases);
  AddCallsOf(def, kEmpty, &cases);
  for (std::string& text : LayerCases(def)) cases.push_back(std::move(text));
  return cases;
}

}  // namespace mica
