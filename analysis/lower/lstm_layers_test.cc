#include "analysis/lower/lstm_layers.h"

#include <string>
#include <utility>

#include "analysis/lower/lower.h"
#include "analysis/lower/tape_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kTimes = 5, kBatch = 2, kInputs = 3, kHidden = 4;

// A layer that keeps something for its backward pass, and that pass.
class LstmLayersTest : public testing::Test {
 protected:
  LstmLayersTest() {
    const int64_t gates = 4 * kHidden;
    for (auto sizes : {std::vector<int64_t>{kTimes, kBatch, kInputs},
                       {gates, kInputs},
                       {gates, kHidden},
                       {gates},
                       {gates},
                       {kBatch, kHidden},
                       {kBatch, kHidden}}) {
      operands_.push_back(maker_.Input(std::move(sizes), storage_++));
    }
    grad_ = maker_.Input({kTimes, kBatch, kHidden}, storage_++);
    for (auto sizes : {std::vector<int64_t>{kTimes, kBatch, kHidden},
                       {kBatch, kHidden},
                       {kBatch, kHidden}}) {
      made_.push_back(maker_.Made(std::move(sizes), storage_++));
    }
    workspace_ = maker_.Made({9000}, storage_++, "u8");
    AddLayer();
    AddPass();
  }

  std::vector<TapeValue> Refs(const std::vector<TapeTensorId>& ids) {
    std::vector<TapeValue> refs;
    for (const TapeTensorId id : ids) refs.push_back(TapeTensorRef{id});
    return refs;
  }

  void AddLayer() {
    std::vector<TapeValue> args = Refs(operands_);
    for (TapeValue value : std::initializer_list<TapeValue>{
             false, std::vector<int64_t>(), int64_t{2}, kHidden, int64_t{1},
             true, false, false, true}) {
      args.push_back(std::move(value));
    }
    TapeCall& call =
        maker_.Call("aten.mkldnn_rnn_layer", std::move(args), made_[0]);
    call.outputs = Refs(made_);
    call.outputs.push_back(TapeTensorRef{workspace_});
    NoteOutputs();
  }

  void AddPass() {
    std::vector<TapeValue> args = Refs(operands_);
    for (const TapeTensorId id : made_) args.push_back(TapeTensorRef{id});
    for (TapeValue value : std::initializer_list<TapeValue>{
             TapeTensorRef{grad_}, std::monostate(), std::monostate(), false,
             int64_t{2}, kHidden, int64_t{1}, true, true, false,
             std::vector<int64_t>(), false, TapeTensorRef{workspace_}}) {
      args.push_back(std::move(value));
    }
    std::vector<TapeTensorId> gradients;
    for (const TapeTensorId id : operands_) {
      gradients.push_back(
          maker_.Made(maker_.tape().tensors[id].sizes, storage_++));
    }
    TapeCall& call = maker_.Call("aten.mkldnn_rnn_layer_backward",
                                 std::move(args), gradients[0]);
    call.outputs = Refs(gradients);
    NoteOutputs();
    maker_.tape().results = gradients;
  }

  void NoteOutputs() {
    const auto call = static_cast<int32_t>(maker_.tape().calls.size()) - 1;
    int32_t next = 0;
    for (const TapeValue& output : maker_.tape().calls.back().outputs) {
      TapeTensor& tensor =
          maker_.tape().tensors[std::get<TapeTensorRef>(output).id];
      tensor.call = call;
      tensor.output = next++;
    }
  }

  std::vector<std::string> OpsAfter() {
    UseOwnLstmLayers(maker_.tape());
    std::vector<std::string> ops;
    for (const TapeCall& call : maker_.tape().calls) ops.push_back(call.op);
    return ops;
  }

  TapeMaker maker_;
  int32_t storage_ = 0;
  std::vector<TapeTensorId> operands_, made_;
  TapeTensorId grad_ = 0, workspace_ = 0;
};

TEST_F(LstmLayersTest, ALayerAndItsPassKeepTheGates) {
  EXPECT_THAT(OpsAfter(),
              ElementsAre("mica.lstm_layer", "mica.lstm_layer_backward"));
  MICA_ASSERT_OK_AND_ASSIGN(const LoweredTape lowered,
                            LowerTape(maker_.tape(), AllOps()));
  EXPECT_THAT(ToText(lowered.program, {.print_sources = false}),
              HasSubstr("f32[5,2,20]"));
}

TEST_F(LstmLayersTest, ALayerWithoutAPassIsOwnToo) {
  maker_.tape().calls.pop_back();
  maker_.tape().results = {made_[0]};
  EXPECT_THAT(OpsAfter(), ElementsAre("mica.lstm_layer"));
}

TEST_F(LstmLayersTest, WhatOthersSeeStaysAtens) {
  const std::vector<std::string> same = {"aten.mkldnn_rnn_layer",
                                         "aten.mkldnn_rnn_layer_backward"};
  maker_.tape().results.push_back(workspace_);
  EXPECT_EQ(OpsAfter(), same);
  maker_.tape().results.pop_back();
  const TapeTensorId alias = maker_.Window(workspace_, {10}, {1}, 0);
  EXPECT_EQ(OpsAfter(), same);
  maker_.tape().tensors[alias].storage = 99;
  maker_.Call("aten.clone", {TapeTensorRef{workspace_}}, alias);
  EXPECT_THAT(OpsAfter(), ElementsAre(same[0], same[1], "aten.clone"));
}

TEST_F(LstmLayersTest, APassOfAnotherLayerStaysAtens) {
  maker_.tape().calls[1].args[22] = TapeTensorRef{grad_};
  EXPECT_THAT(OpsAfter(),
              ElementsAre("mica.lstm_layer", "aten.mkldnn_rnn_layer_backward"));
}

TEST_F(LstmLayersTest, OtherKindsStayAtens) {
  for (const auto& [arg, value] :
       std::initializer_list<std::pair<int, TapeValue>>{
           {8, std::vector<int64_t>{2, 1}},  // Lengths differ.
           {9, int64_t{3}},                  // A GRU.
           {12, false}}) {                   // Without biases.
    TapeValue& old = maker_.tape().calls[0].args[arg];
    const TapeValue before = std::exchange(old, value);
    EXPECT_EQ(OpsAfter()[0], "aten.mkldnn_rnn_layer") << arg;
    old = before;
  }
  maker_.tape().tensors[operands_[0]].dtype = "f64";
  EXPECT_EQ(OpsAfter()[0], "aten.mkldnn_rnn_layer");
}

TEST_F(LstmLayersTest, ALayerThatKeepsNothingStaysAtens) {
  maker_.tape().calls.pop_back();
  maker_.tape().results = {made_[0]};
  maker_.tape().calls[0].outputs[3] = std::monostate();
  EXPECT_THAT(OpsAfter(), ElementsAre("aten.mkldnn_rnn_layer"));
}

TEST_F(LstmLayersTest, ALayerUnderEvalKeepsTheGatesToo) {
  maker_.tape().calls[0].args[15] = false;
  maker_.tape().calls[1].args[18] = false;
  EXPECT_THAT(OpsAfter(),
              ElementsAre("mica.lstm_layer", "mica.lstm_layer_backward"));
}

}  // namespace
}  // namespace mica
