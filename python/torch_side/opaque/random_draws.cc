#include "python/torch_side/opaque/random_draws.h"

#include <ATen/core/Generator.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/tensor.h"
#include "python/torch_side/opaque/opaque.h"

namespace mica {
namespace {

// Of the generator's state while an op finds it somewhere else.
std::mutex& TurnMutex() {
  static std::mutex mutex;
  return mutex;
}

// The next random op of the Job that this thread runs.
struct Turn {
  const at::mt19937* starts = nullptr;  // By op of the step.
  const std::vector<int>* ops = nullptr;
  size_t next = 0;
};
thread_local Turn* current_turn = nullptr;

// Torch's generator of the CPU.
class SharedGenerator {
 public:
  SharedGenerator()
      : generator_(at::detail::getDefaultCPUGenerator()),
        impl_(*at::check_generator<at::CPUGeneratorImpl>(generator_)) {}

  at::mt19937 engine() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    return impl_.engine();
  }
  void set_engine(const at::mt19937& engine) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    impl_.set_engine(engine);
  }
  // Numbers that were drawn and kept for the next op that wants normal ones.
  std::pair<std::optional<float>, std::optional<double>> kept() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    return {impl_.next_float_normal_sample(),
            impl_.next_double_normal_sample()};
  }
  void set_kept(
      const std::pair<std::optional<float>, std::optional<double>>& kept) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    impl_.set_next_float_normal_sample(kept.first);
    impl_.set_next_double_normal_sample(kept.second);
  }

 private:
  at::Generator generator_;
  at::CPUGeneratorImpl& impl_;
};

bool AreAtOnePlace(const at::mt19937& a, const at::mt19937& b) {
  const at::mt19937_data_pod left = a.data(), right = b.data();
  return left.left_ == right.left_ && left.next_ == right.next_ &&
         left.state_ == right.state_;
}

// Passes over `count` numbers, without making any that it needn't: an engine
// makes its numbers in blocks.
void Advance(at::mt19937& engine, int64_t count) {
  while (count > 0) {
    at::mt19937_data_pod data = engine.data();
    const auto skipped =
        static_cast<int>(std::min<int64_t>(count, data.left_ - 1));
    data.left_ -= skipped;
    data.next_ += skipped;
    engine.set_data(data);
    count -= skipped;
    if (count == 0) return;
    engine();  // The next block's first.
    --count;
  }
}

// How many numbers there are from `begin` to `end`; nothing if more than
// `most`.
std::optional<int64_t> CountBetween(const at::mt19937& begin,
                                    const at::mt19937& end, int64_t most) {
  const at::mt19937_data_pod last = end.data();
  at::mt19937 engine = begin;
  int64_t count = 0;
  while (count <= most) {
    const at::mt19937_data_pod data = engine.data();
    if (data.state_ == last.state_ && data.next_ <= last.next_) {
      return count + (last.next_ - data.next_);
    }
    Advance(engine, data.left_);
    count += data.left_;
  }
  return std::nullopt;
}

absl::Status Uncounted(const Op& op, absl::string_view why) {
  return absl::UnimplementedError(
      absl::StrCat(Describe(op), ": draws random numbers ", why,
                   ", and a Schedule can't tell where the next ones start"));
}

// Runs an op on zeros, for what it takes from the generator.
absl::Status RunOnZeros(const Program& program, const Op& op) {
  KernelRequest request = {.def = op.def, .arguments = &op.arguments};
  std::vector<Tensor> tensors;
  std::vector<void*> addresses;
  const auto add = [&](const TensorType& type) -> absl::Status {
    addresses.push_back(nullptr);
    if (type == AbsentResultType()) return absl::OkStatus();
    MICA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
    std::memset(tensor.data(), 0, type.extent_bytes());
    addresses.back() = tensor.data();
    tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  };
  absl::Status status;
  ForEachValue(op.arguments, [&](ValueId id) {
    request.operands.push_back({.type = program.type(id)});
    status.Update(add(program.type(id)));
  });
  for (const ValueId id : op.results) {
    request.results.push_back({.type = program.type(id)});
    status.Update(add(program.type(id)));
  }
  MICA_RETURN_IF_ERROR(status);
  const Verdict verdict = PrepareAten(request);
  if (const auto* no = std::get_if<No>(&verdict)) {
    return absl::NotFoundError(absl::StrCat(Describe(op), ": ", no->reason));
  }
  const Prepared& prepared = std::get<Prepared>(verdict);
  LaunchContext context;
  prepared.launch(prepared.state.get(), addresses.data(), context);
  return context.status;
}

absl::StatusOr<int64_t> CountDraws(const Program& program, const Op& op) {
  int64_t elements = 0;
  for (const ValueId id : op.results) {
    elements += program.type(id).num_elements();
  }
  SharedGenerator generator;
  const std::lock_guard lock(TurnMutex());
  const at::mt19937 engine_before = generator.engine();
  const auto kept_before = generator.kept();
  const at::mt19937 engine(/*seed=*/1);
  generator.set_engine(engine);
  generator.set_kept({});
  const absl::Status status = RunOnZeros(program, op);
  const at::mt19937 end = generator.engine();
  const auto kept = generator.kept();
  generator.set_engine(engine_before);
  generator.set_kept(kept_before);
  MICA_RETURN_IF_ERROR(status);
  if (kept.first.has_value() || kept.second.has_value()) {
    return Uncounted(op, "in pairs, of which one is kept");
  }
  const std::optional<int64_t> count =
      CountBetween(engine, end, 64 * (elements + 64));
  if (!count.has_value()) return Uncounted(op, "without a bound");
  return *count;
}

}  // namespace

absl::StatusOr<RandomDraws> FindRandomDraws(const Program& program,
                                            const PipelinePlan& plan) {
  RandomDraws draws;
  absl::flat_hash_map<std::string, int> index_of_result;
  int num_random = 0;  // Those in branches and loops, too.
  const Op* last = nullptr;
  ForEachOp(program, [&](const Op& op) {
    if (!DrawsRandomNumbers(*op.def)) return;
    ++num_random;
    last = &op;
  });
  for (const Op& op : program.ops()) {
    if (!DrawsRandomNumbers(*op.def)) continue;
    MICA_ASSIGN_OR_RETURN(const int64_t count, CountDraws(program, op));
    index_of_result[program.value(op.results[0]).name] =
        static_cast<int>(draws.counts.size());
    draws.counts.push_back(count);
  }
  if (num_random > static_cast<int>(draws.counts.size())) {
    return Uncounted(*last, "in a branch or a loop");
  }
  for (const PipelinePlan::Stage& stage : plan.stages()) {
    RandomDraws::Stage found = {.jobs = stage.jobs};
    for (const Op& op : stage.program->ops()) {
      if (!DrawsRandomNumbers(*op.def)) continue;
      const std::string& name = stage.program->value(op.results[0]).name;
      const auto it = index_of_result.find(name);
      if (it == index_of_result.end()) {
        return absl::InternalError(absl::StrCat(Describe(op), ": %", name,
                                                " is none of the whole step"));
      }
      found.ops.push_back(it->second);
    }
    if (!found.ops.empty()) draws.stages.push_back(std::move(found));
  }
  return draws;
}

RandomRun::RandomRun(const RandomDraws& draws, int num_micro_batches)
    : draws_(draws), start_(SharedGenerator().engine()) {
  at::mt19937 engine = start_;
  states_.reserve(num_micro_batches * draws.counts.size() + 1);
  for (int batch = 0; batch < num_micro_batches; ++batch) {
    for (const int64_t count : draws.counts) {
      states_.push_back(engine);
      Advance(engine, count);
    }
  }
  states_.push_back(engine);
}

RandomRun::~RandomRun() { SharedGenerator().set_engine(start_); }

void RandomRun::Finish() { start_ = states_.back(); }

absl::Status RandomRun::RunJob(const ScheduledJob& job,
                               absl::FunctionRef<absl::Status()> run) {
  const auto it =
      absl::c_find_if(draws_.stages, [&](const RandomDraws::Stage& stage) {
        return stage.jobs == JobClass{job.type, job.stage};
      });
  if (it == draws_.stages.end()) return run();
  Turn turn = {
      .starts = states_.data() + job.micro_batch * draws_.counts.size(),
      .ops = &it->ops};
  current_turn = &turn;
  const absl::Status status = run();
  current_turn = nullptr;
  MICA_RETURN_IF_ERROR(status);
  if (turn.next == it->ops.size()) return status;
  return absl::InternalError(
      absl::StrCat("ran ", turn.next, " random ops of ", it->ops.size()));
}

absl::Status DrawInTurn(const std::string& op, absl::FunctionRef<void()> draw) {
  Turn* turn = current_turn;
  if (turn == nullptr) {
    draw();
    return absl::OkStatus();
  }
  if (turn->next == turn->ops->size()) {
    return absl::InternalError("one random op more than the step has");
  }
  const at::mt19937* start = turn->starts + (*turn->ops)[turn->next++];
  SharedGenerator generator;
  const std::lock_guard lock(TurnMutex());
  const auto kept = generator.kept();
  generator.set_engine(start[0]);
  draw();
  if (AreAtOnePlace(generator.engine(), start[1]) && generator.kept() == kept) {
    return absl::OkStatus();
  }
  generator.set_kept(kept);
  return absl::UnimplementedError(
      absl::StrCat(op,
                   ": took another number of random numbers than expected: "
                   "data decide it, or another thread drew some; a Schedule "
                   "can't tell where the next ones start"));
}

}  // namespace mica
