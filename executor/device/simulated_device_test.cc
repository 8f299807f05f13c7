#include "executor/device/simulated_device.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/executor.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/device/transfer.h"
#include "gmock/gmock.h"
#include "kernels/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kCount = 64;

class SimulatedDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    MICA_ASSERT_OK_AND_ASSIGN(device_, MakeSimulatedDevice());
    MICA_ASSERT_OK_AND_ASSIGN(
        memory_, Buffer::Allocate(kCount * sizeof(int64_t), device_));
    MICA_ASSERT_OK_AND_ASSIGN(stream_, device_->CreateStream());
    const std::vector<int64_t> zeros(kCount, 0);
    MICA_ASSERT_OK(CopyBytes(memory_.data(), zeros.data(),
                             kCount * sizeof(int64_t), CopyKind::kToDevice,
                             *device_));
  }
  void TearDown() override { device_->DestroyStream(stream_); }

  // Appends `*state` behind what was appended so far: element 0 counts.
  static bool Append(const void* state, void* const* args,
                     LaunchContext& context) {
    auto* list = static_cast<int64_t*>(args[0]);
    const int64_t value = *static_cast<const int64_t*>(state);
    if (value < 0) return context.Fail(absl::InvalidArgumentError("below 0"));
    list[++list[0]] = value;
    return true;
  }
  absl::Status QueueAppend(const int64_t& value, StreamId stream,
                           int32_t step = -1) {
    void* const args[] = {memory_.data()};
    return device_->Launch({&Append, &value, args, step}, stream);
  }
  std::vector<int64_t> Appended() {
    std::vector<int64_t> all(kCount);
    MICA_EXPECT_OK(CopyBytes(all.data(), memory_.data(),
                             kCount * sizeof(int64_t), CopyKind::kToHost,
                             *device_));
    return {all.begin() + 1, all.begin() + 1 + all[0]};
  }

  std::shared_ptr<Device> device_;
  Buffer memory_;
  StreamId stream_ = -1;
  const int64_t one_ = 1, two_ = 2, three_ = 3, bad_ = -1;
};

using SimulatedDeviceDeathTest = SimulatedDeviceTest;

TEST_F(SimulatedDeviceDeathTest, TheHostCannotTouchItsMemory) {
  EXPECT_DEATH(std::memset(memory_.data(), 1, 1), "");
}

TEST_F(SimulatedDeviceTest, WorkOfOneStreamRunsInOrder) {
  for (const int64_t* value : {&one_, &two_, &three_}) {
    MICA_ASSERT_OK(QueueAppend(*value, stream_));
  }
  MICA_ASSERT_OK(device_->Synchronize(stream_).status);
  EXPECT_THAT(Appended(), ElementsAre(1, 2, 3));
}

TEST_F(SimulatedDeviceTest, EventsOrderTheWorkOfSeveralStreams) {
  MICA_ASSERT_OK_AND_ASSIGN(const StreamId other, device_->CreateStream());
  MICA_ASSERT_OK_AND_ASSIGN(const EventId event, device_->CreateEvent());
  for (int round = 0; round < 10; ++round) {
    MICA_ASSERT_OK(QueueAppend(one_, stream_));
    MICA_ASSERT_OK(device_->Record(event, stream_));
    MICA_ASSERT_OK(device_->Wait(other, event));
    MICA_ASSERT_OK(QueueAppend(two_, other));
    MICA_ASSERT_OK(device_->Record(event, other));
    MICA_ASSERT_OK(device_->Wait(stream_, event));
  }
  MICA_ASSERT_OK(device_->Synchronize(stream_).status);
  const std::vector<int64_t> all = Appended();
  ASSERT_EQ(all.size(), 20);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], 1 + i % 2);
  device_->DestroyStream(other);
  device_->DestroyEvent(event);
}

TEST_F(SimulatedDeviceTest, TellsTheFirstErrorAndGoesOnBehindIt) {
  MICA_ASSERT_OK(QueueAppend(one_, stream_, 4));
  MICA_ASSERT_OK(QueueAppend(bad_, stream_, 5));
  MICA_ASSERT_OK(QueueAppend(two_, stream_, 6));
  const DeviceError error = device_->Synchronize(stream_);
  EXPECT_THAT(error.status, StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("below 0")));
  EXPECT_EQ(error.step, 5);
  MICA_ASSERT_OK(QueueAppend(three_, stream_));
  MICA_ASSERT_OK(device_->Synchronize(stream_).status);
  EXPECT_THAT(Appended(), ElementsAre(1, 3));
}

TEST_F(SimulatedDeviceTest, AGraphRunsWhatWasCapturedEachTime) {
  MICA_ASSERT_OK_AND_ASSIGN(const StreamId other, device_->CreateStream());
  MICA_ASSERT_OK_AND_ASSIGN(const EventId begin, device_->CreateEvent());
  MICA_ASSERT_OK_AND_ASSIGN(const EventId end, device_->CreateEvent());
  MICA_ASSERT_OK(device_->BeginCapture(stream_));
  MICA_ASSERT_OK(QueueAppend(one_, stream_));
  MICA_ASSERT_OK(device_->Record(begin, stream_));
  MICA_ASSERT_OK(device_->Wait(other, begin));
  MICA_ASSERT_OK(QueueAppend(two_, other));
  MICA_ASSERT_OK(device_->Record(end, other));
  MICA_ASSERT_OK(device_->Wait(stream_, end));
  MICA_ASSERT_OK_AND_ASSIGN(auto graph, device_->EndCapture(stream_));
  EXPECT_THAT(Appended(), ElementsAre());
  MICA_ASSERT_OK(graph->Launch(stream_));
  MICA_ASSERT_OK(QueueAppend(three_, stream_));
  MICA_ASSERT_OK(graph->Launch(stream_));
  MICA_ASSERT_OK(device_->Synchronize(stream_).status);
  EXPECT_THAT(Appended(), ElementsAre(1, 2, 3, 1, 2));
  device_->DestroyStream(other);
  device_->DestroyEvent(begin);
  device_->DestroyEvent(end);
}

TEST_F(SimulatedDeviceTest, SaysHowMuchMemoryThereIs) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto small,
                            MakeSimulatedDevice({.memory_bytes = 1 << 20}));
  MICA_ASSERT_OK_AND_ASSIGN(Buffer half, Buffer::Allocate(1 << 19, small));
  EXPECT_THAT(Buffer::Allocate(1 << 20, small).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1048576 bytes asked, 524288 bytes free")));
  half = Buffer();
  MICA_EXPECT_OK(Buffer::Allocate(1 << 20, small).status());
}

constexpr char kStep[] = R"(program @step(%x: f32[2,2]) {
  %w = variable "w" : f32[2,2]
  %h = aten.mm(%x, %w) : f32[2,2]
  %y = aten.relu(%h) : f32[2,2]
  update "w" = %h
  return %y
}
)";

class DeviceExecutorTest : public SimulatedDeviceTest {
 protected:
  void SetUp() override {
    SimulatedDeviceTest::SetUp();
    executor_ = Executor::CreateOn(device_, AllOps(), AllKernels(), {});
    MICA_ASSERT_OK_AND_ASSIGN(w_,
                              CopyToDevice(ViewOf(numbers_, {2, 2}), device_));
  }

  std::unique_ptr<Executor> executor_;
  std::vector<float> x_ = {1, 0, 0, 1}, numbers_ = {1, -2, 3, 4};
  Tensor w_;
};

TEST_F(DeviceExecutorTest, RunsOnFeedsOfTheHostAndVariablesOfItsOwn) {
  const auto program = ParseShared(kStep);
  for (int run = 0; run < 4; ++run) {
    MICA_ASSERT_OK_AND_ASSIGN(
        const std::vector<Tensor> results,
        executor_->Run(program, {{"x", ViewOf(x_, {2, 2})}}, {{"w", w_.view()}},
                       {}));
    EXPECT_EQ(results[0].place(), device_->place());
    MICA_ASSERT_OK_AND_ASSIGN(const Tensor y, CopyToHost(results[0]));
    EXPECT_THAT(NumbersOf(y), ElementsAre(1, 0, 3, 4));
  }
  MICA_ASSERT_OK_AND_ASSIGN(const Tensor w, CopyToHost(w_));
  EXPECT_THAT(NumbersOf(w), ElementsAre(1, -2, 3, 4));
}

TEST_F(DeviceExecutorTest, TakesFeedsThatLieOnTheDevice) {
  MICA_ASSERT_OK_AND_ASSIGN(const Tensor x,
                            CopyToDevice(ViewOf(x_, {2, 2}), device_));
  MICA_ASSERT_OK_AND_ASSIGN(
      const std::vector<Tensor> results,
      executor_->Run(ParseShared(kStep), {{"x", x.view()}}, {{"w", w_.view()}},
                     {}));
  MICA_ASSERT_OK_AND_ASSIGN(const Tensor y, CopyToHost(results[0]));
  EXPECT_THAT(NumbersOf(y), ElementsAre(1, 0, 3, 4));
}

TEST_F(DeviceExecutorTest, RefusesTensorsOfOtherPlaces) {
  const auto program = ParseShared(kStep);
  EXPECT_THAT(
      executor_
          ->Run(program, {{"x", ViewOf(x_, {2, 2})}},
                {{"w", ViewOf(numbers_, {2, 2})}}, {})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("variable \"w\": wants a tensor on simulated:0, got "
                         "one on cpu:0")));
  MICA_ASSERT_OK_AND_ASSIGN(const auto other,
                            MakeSimulatedDevice({.index = 1}));
  MICA_ASSERT_OK_AND_ASSIGN(const Tensor x,
                            CopyToDevice(ViewOf(x_, {2, 2}), other));
  EXPECT_THAT(
      executor_->Run(program, {{"x", x.view()}}, {{"w", w_.view()}}, {})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("feed \"x\": wants a tensor on simulated:0 or on the "
                         "host, got one on simulated:1")));
}

TEST_F(DeviceExecutorTest, AnErrorOfDataNamesTheStepAndChangesNothing) {
  const auto program = ParseShared(R"(program @pick(%i: i64[1]) {
  %w = variable "w" : f32[2,2]
  %y = aten.embedding(%w, %i) : f32[1,2] @ "model.py":7
  %z = aten.mul.Tensor(%w, %w) : f32[2,2]
  update "w" = %z
  return %y
}
)");
  std::vector<int64_t> index = {5};
  const TensorView i = {.data = index.data(),
                        .type = {.dtype = DType::kI64, .dims = {1}}};
  for (int run = 0; run < 3; ++run) {
    const absl::Status status =
        executor_->Run(program, {{"i", i}}, {{"w", w_.view()}}, {}).status();
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("aten.embedding (model.py:7)"),
                               HasSubstr("out of range")));
    MICA_ASSERT_OK_AND_ASSIGN(const Tensor w, CopyToHost(w_));
    EXPECT_THAT(NumbersOf(w), ElementsAre(1, -2, 3, 4));
  }
  index[0] = 1;
  MICA_EXPECT_OK(
      executor_->Run(program, {{"i", i}}, {{"w", w_.view()}}, {}).status());
}

}  // namespace
}  // namespace mica
