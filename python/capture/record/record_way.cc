// Records that went different ways, as one record.

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "framework/base/status.h"
#include "python/capture/record/record.h"
#include "python/capture/record/record_maker.h"

namespace mica {

void RecordMaker::FindWays() {
  const Tape& tape = recorded_.tape;
  const auto comparisons = run_.watch.values().Comparisons();
  const auto num_comparisons = static_cast<int64_t>(comparisons.size());
  // Others would have other numbers.
  if (static_cast<int64_t>(tape.calls.size()) != num_calls_) return;
  RunWays ways = run_.watch.ways().Finish(
      comparisons, tape.host_reads,
      static_cast<int32_t>(num_calls_ - num_comparisons));
  if (!ways.unknown.empty() || ways.events.empty()) return;
  way_run_.tape = record_.recipe_.tape != nullptr
                      ? record_.recipe_.tape
                      : std::make_shared<const Tape>(tape);
  way_run_.events = std::move(ways.events);
  for (PyObject* state : recorded_.states) {
    way_run_.states.push_back(
        static_cast<int64_t>(reinterpret_cast<intptr_t>(state)));
  }
  meetings_ = std::move(ways.states);
}

void RecordMaker::KeepWay(const std::vector<TensorMeta>& kinds,
                          const GraphOptions& options) {
  const Record& record = record_;
  // A way has no effect but its results, and those are tensors.
  const bool is_pure =
      record.effects_.empty() && !record.effects_.has_calls() &&
      record.argument_changes_.empty() && record.draws_.empty() &&
      record.gradients_.leaves().empty() && record.slots_.places().empty() &&
      record.host_inputs_.sources().empty() &&
      record.size_inputs_.sources().empty() && record.backward() == nullptr &&
      record.result_.numbers().empty() &&
      record.first_arguments_.numbers().empty() &&
      absl::c_none_of(record.states_, [](const Record::State& state) {
        return state.is_found_anew();
      });
  if (way_run_.events.empty() || !is_pure || kinds.empty() ||
      options_.make_runner || !options.offload_folder.empty() ||
      !way_run_.tape->mutated.empty() || run_.watch.tensors().reads_offsets() ||
      absl::c_any_of(kinds, [](const TensorMeta& kind) {
        return kind.requires_grad || kind.has_lazy_bits();
      })) {
    return;
  }
  record_.way_ =
      std::make_shared<RecordedWay>(RecordedWay{.run = std::move(way_run_),
                                                .states = std::move(meetings_),
                                                .kind = kinds[0],
                                                .options = options});
}

absl::Status Record::JoinWays(const std::shared_ptr<Record>& other) {
  if (way_ == nullptr || other->way_ == nullptr) {
    return absl::FailedPreconditionError(
        "it isn't known where the run's way forks");
  }
  // The guards of each are checked at each call.
  constexpr size_t kMaxMembers = 64;
  if (other->members_.size() + 1 >= kMaxMembers) {
    return absl::FailedPreconditionError("there are many ways");
  }
  if (sizes_ != nullptr || other->sizes_ != nullptr) {
    return absl::FailedPreconditionError("the record is for any sizes");
  }
  auto ways = other->ways_ != nullptr
                  ? std::make_shared<RecordWays>(*other->ways_)
                  : std::make_shared<RecordWays>();
  if (other->ways_ == nullptr) {
    MICA_RETURN_IF_ERROR(ways->Add(other->way_));
  }
  MICA_RETURN_IF_ERROR(ways->Add(way_));
  ways_ = std::move(ways);
  members_ = std::exchange(other->members_, {});
  other->ways_ = nullptr;
  members_.push_back(other);
  num_watched_ += other->num_watched_;
  // Their runs are parts of the ways from now on.
  for (const std::shared_ptr<Record>& member : members_) {
    member->run_->graph->ReleaseMemory();
  }
  return absl::OkStatus();
}

Record::Outcome Record::ServeWays(const BoundCall& bound, PyRef* result,
                                  Miss* miss, RaisedCall* raised) {
  std::vector<BoundCall> calls;
  std::vector<PyObject*> kept;
  for (const std::shared_ptr<Record>& member : members_) {
    calls.push_back(std::move(member->bound_));
    kept.insert(kept.end(), member->run_objects_.begin(),
                member->run_objects_.end());
  }
  for (PyObject* object : kept) Py_INCREF(object);
  const std::vector<std::shared_ptr<Record>> members = members_;
  const absl::Cleanup keep = [&] {
    for (PyObject* object : kept) Py_DECREF(object);
    for (size_t i = 0; i < members.size(); ++i) {
      calls[i].found.clear();
      calls[i].run.reset();
      members[i]->bound_ = std::move(calls[i]);
    }
  };
  std::vector<RecordWays::Operands> operands;
  for (const BoundCall& call : calls) {
    operands.push_back({call.inputs.tensors, call.states});
  }
  operands.push_back({bound.inputs.tensors, bound.states});
  const std::shared_ptr<RecordWays> ways = ways_;
  int32_t end = 0;
  std::vector<PyRef> tensors;
  const absl::Status status = ways->Run(operands, &kernels_, &end, &tensors);
  if (!status.ok()) return Failed(status, miss, raised);
  const bool is_own = static_cast<size_t>(end) == members.size();
  const Record& record = is_own ? *this : *members[end];
  const BoundCall& call = is_own ? bound : calls[end];
  if (!record.MakeResults(call, {}, &tensors, /*is_of_ways=*/true)) {
    return Outcome::kHit;
  }
  *result = record.Leave(call, tensors, {}, nullptr);
  ++hits;
  return Outcome::kHit;
}

}  // namespace mica
