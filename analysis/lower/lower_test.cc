#include "analysis/lower/lower.h"

#include <string>

#include "analysis/lower/tape_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Text(const Program& program) {
  return ToText(program, {.print_sources = false});
}

TEST(LowerTest, WriteToAnInputBecomesAnUpdate) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 3}, 0);
  TapeCall& call = maker.Call("aten.relu_", {TapeTensorRef{x}}, x);
  call.mutated_args = {0};
  call.aliases = {{.output = 0, .arg = 0, .is_write = true}};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_EQ(Text(lowered.program), R"(program @f(%x: f32[2,3]) {
  %0 = aten.relu(%x) : f32[2,3]
  update %x = %0
  return
}
)");
}

TEST(LowerTest, WriteThroughAViewIsSeenByItsBase) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 3}, 0);
  const TapeTensorId y = maker.Made({2, 3}, 1);
  const TapeTensorId row = maker.Window(y, {3}, {1}, 3);
  const TapeTensorId z = maker.Made({2, 3}, 2);
  maker.Call("aten.neg", {TapeTensorRef{x}}, y);
  maker.Call("aten.select.int", {TapeTensorRef{y}, int64_t{0}, int64_t{1}}, row)
      .aliases = {{.output = 0, .arg = 0}};
  TapeCall& relu = maker.Call("aten.relu_", {TapeTensorRef{row}}, row);
  relu.mutated_args = {0};
  relu.aliases = {{.output = 0, .arg = 0, .is_write = true}};
  maker.Call("aten.exp", {TapeTensorRef{y}}, z);
  maker.tape().results = {z};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(Text(lowered.program), HasSubstr("mica.scatter_view(%0, %"));
  const Op& last = lowered.program.ops().back();
  EXPECT_EQ(last.def->name(), "aten.exp");
  const ValueId operand = std::get<ValueRef>(last.arguments[0]).id;
  const Op& producer =
      lowered.program.ops()[lowered.program.value(operand).index];
  EXPECT_EQ(producer.def->name(), "mica.scatter_view");
}

// Two inputs side by side in one storage, and a view of the second one.
TapeMaker SideBySide() {
  TapeMaker maker;
  maker.Input({2, 3}, 0);
  const TapeTensorId y = maker.Input({2, 3}, 0);
  maker.tape().tensors[y].offset = 6;
  const TapeTensorId turned = maker.Window(y, {3, 2}, {1, 3}, 6);
  const TapeTensorId z = maker.Made({3, 2}, 1);
  maker.Call("aten.t", {TapeTensorRef{y}}, turned).aliases = {
      {.output = 0, .arg = 0}};
  maker.MadeByLastCall(turned);
  maker.Call("aten.exp", {TapeTensorRef{turned}}, z);
  maker.MadeByLastCall(z);
  maker.tape().results = {z, turned};
  return maker;
}

TEST(LowerTest, InputsOfOneStorageThatIsReadAreTensorsOfTheirOwn) {
  TapeMaker maker = SideBySide();
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_EQ(lowered.results[1].source, LoweredResult::Source::kInput);
  EXPECT_EQ(lowered.results[1].index, 1);
  EXPECT_EQ(lowered.results[1].offset, 0);
}

TEST(LowerTest, InputsOfOneStorageThatIsWrittenAreViewsOfOne) {
  TapeMaker maker = SideBySide();
  TapeCall& relu =
      maker.Call("aten.relu_", {TapeTensorRef{0}}, TapeTensorId{0});
  relu.mutated_args = {0};
  relu.aliases = {{.output = 0, .arg = 0, .is_write = true}};
  EXPECT_THAT(LowerTape(maker.tape(), AllOps()),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("reaches beyond the tensor")));
}

TEST(LowerTest, ResultThatViewsAnInputIsAWindowOnIt) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 3}, 0);
  const TapeTensorId t = maker.Window(x, {3, 2}, {1, 3}, 0);
  maker.Call("aten.t", {TapeTensorRef{x}}, t).aliases = {
      {.output = 0, .arg = 0}};
  maker.tape().results = {t};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  ASSERT_EQ(lowered.results.size(), 1u);
  EXPECT_EQ(lowered.results[0].source, LoweredResult::Source::kInput);
  EXPECT_THAT(lowered.results[0].strides, ElementsAre(1, 3));
  EXPECT_TRUE(lowered.program.outputs().empty());
}

TEST(LowerTest, UnknownOperatorIsOpaqueWithItsWritesAsResults) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({4}, 0);
  TapeCall& call =
      maker.Call("aten.mystery_", {TapeTensorRef{x}, 0.5}, kNoTapeTensor);
  call.schema = "aten::mystery_(Tensor(a!) self, float p) -> ()";
  call.outputs.clear();
  call.mutated_args = {0};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(Text(lowered.program), HasSubstr("opaque \"aten::mystery_"));
  EXPECT_THAT(Text(lowered.program), HasSubstr("update %x = %"));
}

TEST(LowerTest, SizesThatDependOnDataAreThoseOfTheTape) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({4}, 0);
  const TapeTensorId y = maker.Made({2, 1}, 1);
  TapeCall& call = maker.Call("aten.nonzero", {TapeTensorRef{x}}, y);
  call.schema = "aten::nonzero(Tensor self) -> Tensor";
  call.has_dynamic_output_shape = true;
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(Text(lowered.program), HasSubstr("aten.nonzero(%x) : f32[2,1]"));
}

TEST(LowerTest, StatisticsThatACallWritesUnsaidAreResultsAndUpdates) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 3}, 0);
  const TapeTensorId mean = maker.Input({3}, 1);
  const TapeTensorId var = maker.Input({3}, 2);
  const TapeTensorId y = maker.Made({2, 3}, 3);
  const TapeTensorId saved = maker.Made({3}, 4);
  const TapeTensorId rstd = maker.Made({3}, 5);
  TapeCall& call =
      maker.Call("aten.native_batch_norm",
                 {TapeTensorRef{x}, std::monostate(), std::monostate(),
                  TapeTensorRef{mean}, TapeTensorRef{var}, true, 0.1, 1e-5},
                 y);
  call.outputs = {TapeTensorRef{y}, TapeTensorRef{saved}, TapeTensorRef{rstd}};
  call.mutated_args = {3, 4};
  maker.tape().results = {y};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(
      ToText(lowered.program),
      HasSubstr("aten._native_batch_norm_legit_functional(%x, none, none, "));
  EXPECT_EQ(lowered.program.updates().size(), 2);
}

TEST(LowerTest, CallsThatWriteUnsaidAndThatDoNotStandSideBySide) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({4}, 0);
  const TapeTensorId mean = maker.Input({4}, 1);
  const TapeTensorId y = maker.Made({4}, 2);
  const TapeTensorId z = maker.Made({4}, 3);
  TapeTensorId from = x;
  for (const TapeTensorId to : {y, z}) {
    TapeCall& call = maker.Call("aten.mystery",
                                {TapeTensorRef{from}, TapeTensorRef{mean}}, to);
    call.schema = "aten::mystery(Tensor self, Tensor mean) -> Tensor";
    if (to == y) call.mutated_args = {1};
    from = to;
  }
  maker.tape().results = {z};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = Text(lowered.program);
  EXPECT_THAT(text, HasSubstr("torch.writing.aten.mystery(%x, "));
  EXPECT_THAT(text, HasSubstr(" = aten.mystery("));
  EXPECT_EQ(lowered.program.updates().size(), 1);
}

TEST(LowerTest, AResultThatTheMaskLeavesOutIsAbsentThoughEagerMadeIt) {
  TapeMaker maker;
  const TapeTensorId grad = maker.Input({2, 3}, 0);
  const TapeTensorId x = maker.Input({2, 3}, 1);
  const TapeTensorId mean = maker.Input({3}, 2);
  const TapeTensorId rstd = maker.Input({3}, 3);
  const TapeTensorId grad_x = maker.Made({2, 3}, 4);
  const TapeTensorId unasked = maker.Made({3}, 5);
  TapeCall& call = maker.Call(
      "aten.native_batch_norm_backward",
      {TapeTensorRef{grad}, TapeTensorRef{x}, std::monostate(),
       std::monostate(), std::monostate(), TapeTensorRef{mean},
       TapeTensorRef{rstd}, true, 1e-5, std::vector<bool>{true, false, false}},
      grad_x);
  call.outputs = {TapeTensorRef{grad_x}, TapeTensorRef{unasked},
                  std::monostate()};
  maker.tape().results = {grad_x};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(ToText(lowered.program), HasSubstr("f32[2,3], f32[0], f32[0]"));
}

TEST(LowerTest, ACallOverListsIsACallForEachTensor) {
  TapeMaker maker;
  const TapeTensorId p = maker.Input({2, 3}, 0);
  const TapeTensorId q = maker.Input({4}, 1);
  const TapeTensorId root_p = maker.Made({2, 3}, 2);
  const TapeTensorId root_q = maker.Made({4}, 3);
  TapeCall& div =
      maker.Call("aten._foreach_div_.ScalarList",
                 {TapeTensorList{{p, q}}, std::vector<double>{2.0, 4.0}}, p);
  div.arg_names = {"self", "scalars"};
  div.outputs.clear();
  div.mutated_args = {0};
  TapeCall& sqrt =
      maker.Call("aten._foreach_sqrt", {TapeTensorList{{p, q}}}, p);
  sqrt.arg_names = {"self"};
  sqrt.outputs = {TapeTensorList{{root_p, root_q}}};
  maker.tape().results = {root_p, root_q};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = ToText(lowered.program);
  EXPECT_THAT(text, HasSubstr("aten.div.Scalar(%x, 2.0) : f32[2,3]"));
  EXPECT_THAT(text, HasSubstr("aten.div.Scalar(%x_, 4.0) : f32[4]"));
  EXPECT_THAT(text, HasSubstr("aten.sqrt"));
  EXPECT_EQ(lowered.program.updates().size(), 2);
}

TEST(LowerTest, NumbersOfAListMayVary) {
  TapeMaker maker;
  const TapeTensorId p = maker.Input({2, 3}, 0);
  const TapeTensorId q = maker.Input({4}, 1);
  maker.Number("rate", 0.5);
  TapeCall& mul = maker.Call(
      "aten._foreach_mul_.ScalarList",
      {TapeTensorList{{p, q}}, TapeHostList{{{.id = 0}, {.constant = 4}}}}, p);
  mul.arg_names = {"self", "scalars"};
  mul.outputs.clear();
  mul.mutated_args = {0};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = ToText(lowered.program);
  EXPECT_THAT(text, HasSubstr("%rate: f64"));
  EXPECT_THAT(text, HasSubstr("(%x, %rate) : f32[2,3]"));
  EXPECT_THAT(text, HasSubstr("(%x_, 4.0) : f32[4]"));
}

TEST(LowerTest, ATensorOfANumberThatVariesIsFilledWithIt) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2}, 0);
  maker.Number("rate", 0.5);
  const TapeTensorId made = maker.Made({1}, 1);
  TapeTensor& constant = maker.tape().tensors[made];
  constant.origin = TapeOrigin::kConstant;
  constant.bytes = std::make_shared<const std::string>("\0\0\0\x3f", 4);
  constant.numbers = {{.id = 0}};
  const TapeTensorId product = maker.Made({2}, 2);
  maker.Call("aten.mul.Tensor", {TapeTensorRef{x}, TapeTensorRef{made}},
             product);
  maker.tape().results = {product};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(ToText(lowered.program),
              HasSubstr("aten.full([1], %rate, dtype=f32) : f32[1]"));
  // A number that doesn't vary after all is the constant.
  maker.tape().host_values[0].is_constant = true;
  MICA_ASSERT_OK_AND_ASSIGN(lowered, LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(ToText(lowered.program), HasSubstr("constant [0.5] : f32[1]"));
}

// torch.tensor([[rate, 2.0]])
TEST(LowerTest, ATensorOfNumbersIsPutTogether) {
  TapeMaker maker;
  maker.Number("rate", 0.5);
  const TapeTensorId made = maker.Made({1, 2}, 0);
  TapeTensor& constant = maker.tape().tensors[made];
  constant.origin = TapeOrigin::kConstant;
  constant.bytes =
      std::make_shared<const std::string>("\0\0\0\x3f\0\0\0\x40", 8);
  constant.numbers = {{.id = 0}, {.constant = 2}};
  maker.tape().results = {made};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = ToText(lowered.program);
  EXPECT_THAT(text, HasSubstr("aten.full([1], %rate, dtype=f32) : f32[1]"));
  EXPECT_THAT(text, HasSubstr("aten.full([1], 2.0, dtype=f32) : f32[1]"));
  EXPECT_THAT(text, HasSubstr(" : f32[1,2]"));
}

TEST(LowerTest, TheGradientOfAnIndexThatVariesGoesToItsRow) {
  TapeMaker maker;
  const TapeTensorId g = maker.Input({4}, 0);
  maker.Number("i", 2);
  const TapeTensorId made = maker.Made({6, 4}, 1);
  TapeCall& call = maker.Call("aten.select_backward",
                              {TapeTensorRef{g}, std::vector<int64_t>{6, 4},
                               int64_t{0}, TapeHostRef{0}},
                              made);
  call.arg_names = {"grad_output", "input_sizes", "dim", "index"};
  maker.MadeByLastCall(made);
  maker.tape().results = {made};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = ToText(lowered.program);
  EXPECT_THAT(text, HasSubstr("mica.scalar_mul(%i, 4.0)"));
  EXPECT_THAT(text, HasSubstr(", [4], [1], %"));
  // A number that doesn't vary after all is the constant.
  maker.tape().host_values[0].is_constant = true;
  MICA_ASSERT_OK_AND_ASSIGN(lowered, LowerTape(maker.tape(), AllOps()));
  EXPECT_THAT(ToText(lowered.program), HasSubstr(", [6, 4], 0, 2)"));
}

// x[:, i] = y; x[:, i][1], where i was 2.
TEST(LowerTest, AnIndexThatVariesMovesAView) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 5}, 0);
  const TapeTensorId y = maker.Input({2}, 1);
  maker.Number("i", 2);
  const auto select = [&](TapeTensorId of, int64_t dim, TapeValue index,
                          TapeTensorId to) {
    TapeCall& call =
        maker.Call("aten.select.int", {TapeTensorRef{of}, dim, index}, to);
    call.arg_names = {"self", "dim", "index"};
    call.aliases = {{.output = 0, .arg = 0}};
    maker.MadeByLastCall(to);
  };
  const TapeTensorId column = maker.Window(x, {2}, {5}, 2);
  select(x, 1, TapeHostRef{0}, column);
  TapeCall& copy = maker.Call(
      "aten.copy_", {TapeTensorRef{column}, TapeTensorRef{y}, false}, column);
  copy.arg_names = {"self", "src", "non_blocking"};
  copy.mutated_args = {0};
  copy.aliases = {{.output = 0, .arg = 0, .is_write = true}};
  const TapeTensorId one = maker.Window(x, {}, {}, 7);
  select(column, 0, int64_t{1}, one);
  const TapeTensorId made = maker.Made({}, 2);
  maker.Call("aten.neg", {TapeTensorRef{one}}, made);
  maker.MadeByLastCall(made);
  maker.tape().results = {made};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = ToText(lowered.program);
  EXPECT_THAT(text, HasSubstr("%0 = mica.scalar_mul(%i, 1.0)"));
  EXPECT_THAT(text, HasSubstr("%1 = mica.scalar_lt(%i, 0.0)"));
  EXPECT_THAT(text, HasSubstr("%2 = mica.scalar_mul(%1, 5.0)"));
  EXPECT_THAT(text, HasSubstr("%3 = mica.scalar_add(%0, %2)"));
  EXPECT_THAT(text, HasSubstr(", [2], [5], %"));
  EXPECT_THAT(text, HasSubstr("%7 = mica.scalar_add(%3, 0.0)"));
  EXPECT_THAT(text, HasSubstr("mica.write_window_at(%x, %6, [2], [5], %7)"));
  EXPECT_THAT(text, HasSubstr("mica.window_at("));
  EXPECT_THAT(text, HasSubstr(", 5.0) : f64"));  // 7, less 2 of the index.
  EXPECT_EQ(lowered.program.updates().size(), 1);
  // What is returned of it is told with where it is.
  maker.tape().results = {one};
  MICA_ASSERT_OK_AND_ASSIGN(lowered, LowerTape(maker.tape(), AllOps()));
  EXPECT_EQ(lowered.results[0].source, LoweredResult::Source::kInput);
  EXPECT_EQ(lowered.results[0].moved, 0);
  EXPECT_EQ(lowered.program.outputs().size(), 1u);
}

TEST(LowerTest, ComplexNumbersAreComputedWithByAten) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 3}, 0);
  maker.tape().tensors[x].dtype = "c64";
  const TapeTensorId y = maker.Made({2, 3}, 1, "c64");
  const TapeTensorId z = maker.Made({2, 3}, 2);
  maker.Call("aten.neg", {TapeTensorRef{x}}, y).schema =
      "aten::neg(Tensor self) -> Tensor";
  maker.Call("aten.abs", {TapeTensorRef{y}}, z).schema =
      "aten::abs(Tensor self) -> Tensor";
  maker.tape().results = {z};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = Text(lowered.program);
  EXPECT_THAT(text, HasSubstr("torch.aten.neg(%x) : c64[2,3]"));
  EXPECT_THAT(text, HasSubstr("torch.aten.abs(%0) : f32[2,3]"));
}

TEST(LowerTest, AWriteToImaginaryPartsIsSeenByTheirNumbers) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 3}, 0);
  maker.tape().tensors[x].dtype = "c64";
  const TapeTensorId parts = maker.Window(x, {2, 3, 2}, {6, 2, 1}, 0);
  const TapeTensorId imag = maker.Window(x, {2, 3}, {6, 2}, 1);
  for (const TapeTensorId id : {parts, imag}) {
    maker.tape().tensors[id].dtype = "f32";
  }
  const auto view = std::vector<TapeAlias>{{.output = 0, .arg = 0}};
  maker.Call("aten.view_as_real", {TapeTensorRef{x}}, parts).aliases = view;
  maker
      .Call("aten.select.int", {TapeTensorRef{parts}, int64_t{2}, int64_t{1}},
            imag)
      .aliases = view;
  TapeCall& relu = maker.Call("aten.relu_", {TapeTensorRef{imag}}, imag);
  relu.mutated_args = {0};
  relu.aliases = {{.output = 0, .arg = 0, .is_write = true}};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_EQ(Text(lowered.program), R"(program @f(%x: c64[2,3]) {
  %0 = aten.view_as_real(%x) : f32[2,3,2]
  %1 = aten.select.int(%0, 2, 1) : f32[2,3]{6,2}
  %2 = aten.relu(%1) : f32[2,3]
  %3 = aten.view_as_real(%x) : f32[2,3,2]
  %4 = mica.scatter_view(%3, %2, [2, 3], [6, 2], 1) : f32[2,3,2]
  %5 = aten.view_as_complex(%4) : c64[2,3]
  update %x = %5
  return
}
)");
}

TEST(LowerTest, AWriteOfComplexNumbersIsSeenByTheirParts) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 2}, 0);
  const TapeTensorId row = maker.Window(x, {}, {}, 1);
  maker.tape().tensors[row].dtype = "c64";
  TapeCall& neg = maker.Call("aten.neg_", {TapeTensorRef{row}}, row);
  neg.schema = "aten::neg_(Tensor(a!) self) -> Tensor(a!)";
  neg.mutated_args = {0};
  neg.aliases = {{.output = 0, .arg = 0, .is_write = true}};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  EXPECT_EQ(Text(lowered.program), R"mica(program @f(%x: f32[2,2]) {
  opaque "aten::neg_(Tensor(a!) self) -> Tensor(a!)"
  %0 = aten.as_strided(%x, [2], [1], storage_offset=2) : f32[2]
  %1 = aten.view_as_complex(%0) : c64[]
  %2 = aten.neg_(%1) : c64[]
  %3 = aten.view_as_real(%2) : f32[2]
  %4 = mica.scatter_view(%x, %3, [2], [1], 2) : f32[2,2]
  update %x = %4
  return
}
)mica");
}

TEST(LowerTest, AnOperatorIsToldWhichOperandsAreLazy) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({2, 2}, 0);
  maker.tape().tensors[x].dtype = "c64";
  const TapeTensorId conj = maker.Window(x, {2, 2}, {2, 1}, 0);
  maker.tape().tensors[conj].is_conj = true;
  const TapeTensorId y = maker.Made({2, 2}, 1, "c64");
  maker.Call("aten._conj", {TapeTensorRef{x}}, conj).aliases = {
      {.output = 0, .arg = 0}};
  maker.Call("aten.mm", {TapeTensorRef{x}, TapeTensorRef{conj}}, y).schema =
      "aten::mm(Tensor self, Tensor mat2) -> Tensor";
  // What is written to a conjugated tensor is stored conjugated.
  TapeCall& copy = maker.Call(
      "aten.copy_", {TapeTensorRef{conj}, TapeTensorRef{y}, false}, conj);
  copy.schema =
      "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> "
      "Tensor(a!)";
  copy.mutated_args = {0};
  copy.aliases = {{.output = 0, .arg = 0, .is_write = true}};
  maker.tape().results = {y, conj};
  MICA_ASSERT_OK_AND_ASSIGN(LoweredTape lowered,
                            LowerTape(maker.tape(), AllOps()));
  const std::string text = Text(lowered.program);
  EXPECT_THAT(text, HasSubstr("torch.lazy.pc.aten.mm(%x, %x) : c64[2,2]"));
  EXPECT_THAT(text, HasSubstr("%1 = torch.lazy.cp.aten.copy_(%x, %0"));
  EXPECT_THAT(text, HasSubstr("%2 = aten._conj_physical(%1) : c64[2,2]"));
  EXPECT_THAT(text, HasSubstr("update %x = %6"));
  EXPECT_FALSE(lowered.results[0].is_conj);
  EXPECT_TRUE(lowered.results[1].is_conj);
  EXPECT_EQ(lowered.results[1].dtype, DType::kC64);
}

}  // namespace
}  // namespace mica
