#include "analysis/schedule/value_plan.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/schedule/clocks.h"
#include "framework/base/status.h"
#include "framework/tensor/tensor.h"

namespace mica {

// A stage's values that the same Jobs make and read live and die together: they
// are one block, however many they are, and each lies in it at a place of its
// own. So the work is by block and micro-batch, not by value.
class ValuePlanner {
 public:
  ValuePlanner(const JobGraph& graph, const Clocks& clocks,
               absl::Span<const ScheduleValue> values)
      : graph_(graph),
        clocks_(clocks),
        values_(values),
        made_(graph.num_jobs()),
        released_(graph.num_jobs()) {}

  absl::StatusOr<ValuePlan> Plan() {
    plan_.num_micro_batches_ = graph_.num_micro_batches();
    MICA_RETURN_IF_ERROR(MakeBlocks());
    plan_.block_offsets_.assign(blocks_.size() * graph_.num_micro_batches(),
                                -1);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      MICA_RETURN_IF_ERROR(
          Annotate(AddBlock(static_cast<int>(i)),
                   absl::StrCat("value ", values_[blocks_[i].first].name)));
    }
    for (int device = 0; device < graph_.num_devices(); ++device) {
      Place(device);
    }
    return std::move(plan_);
  }

 private:
  // Values of one producer and the same readers.
  struct Block {
    int first = 0;  // Of its values.
    int64_t num_values = 0;
    int64_t live_bytes = 0;  // Of its values by themselves,
    int64_t bytes = 0;       // and of all, each of them aligned.
  };

  struct Instance {
    int block;
    int micro_batch;
  };

  absl::Status MakeBlocks() {
    absl::flat_hash_map<std::vector<int>, int> known;
    for (size_t i = 0; i < values_.size(); ++i) {
      const ScheduleValue& value = values_[i];
      if (value.bytes < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("value ", value.name, ": ", value.bytes, " bytes"));
      }
      std::vector<int> users = {static_cast<int>(value.producer.type),
                                value.producer.stage};
      for (const JobClass& reader : value.readers) {
        users.push_back(static_cast<int>(reader.type));
        users.push_back(reader.stage);
      }
      const auto [it, is_new] =
          known.try_emplace(std::move(users), static_cast<int>(blocks_.size()));
      if (is_new) blocks_.push_back({.first = static_cast<int>(i)});
      Block& block = blocks_[it->second];
      plan_.places_.push_back({.block = it->second, .offset = block.bytes});
      ++block.num_values;
      block.live_bytes += value.bytes;
      block.bytes += AlignUp(value.bytes);
    }
    return absl::OkStatus();
  }

  absl::Status AddBlock(int index) {
    const ScheduleValue& value = values_[blocks_[index].first];
    bool is_made = false;
    for (int batch = 0; batch < graph_.num_micro_batches(); ++batch) {
      const JobId producer = Find(value.producer, batch);
      if (producer < 0) continue;
      is_made = true;
      MICA_RETURN_IF_ERROR(AddInstance({index, batch}, producer));
    }
    if (is_made) return absl::OkStatus();
    return absl::InvalidArgumentError("no Job makes it");
  }

  // Lets it live from its producer to the first Job of the same device that
  // starts after all readers for sure.
  absl::Status AddInstance(Instance instance, JobId producer) {
    const int device = graph_.device(producer);
    const bool is_of_all = IsForAllMicroBatches(graph_.job(producer).type);
    JobId end = producer + 1;
    for (const JobClass& reader :
         values_[blocks_[instance.block].first].readers) {
      if (IsForAllMicroBatches(reader.type) != is_of_all) {
        return absl::InvalidArgumentError(
            absl::StrCat(Describe(reader), " reads it, which is of ",
                         is_of_all ? "all micro-batches" : "one of them"));
      }
      const JobId id = Find(reader, instance.micro_batch);
      if (id < 0) continue;
      if (!clocks_.HasEnded(producer, id)) {
        return absl::InvalidArgumentError(
            absl::StrCat(graph_.job(id).ToString(), " reads it, but doesn't ",
                         "wait for ", graph_.job(producer).ToString()));
      }
      // Updates write their variables, and read what for, when all Jobs have
      // ended.
      end = is_of_all ? graph_.end(device)
                      : std::max(end, clocks_.FirstAfter(id, device));
    }
    made_[producer].push_back(instance);
    if (end < graph_.end(device)) released_[end].push_back(instance);
    return absl::OkStatus();
  }

  JobId Find(const JobClass& jobs, int batch) const {
    if (!IsForAllMicroBatches(jobs.type)) {
      return graph_.Find({jobs.type, jobs.stage, batch});
    }
    if (batch > 0) return -1;
    return graph_.Find({jobs.type, jobs.stage, ScheduledJob::kAllMicroBatches});
  }

  // Blocks of one size share slices.
  void Place(int device) {
    DeviceMemory memory;
    int64_t num_live = 0;
    int64_t live_bytes = 0;
    absl::flat_hash_map<int64_t, std::vector<int64_t>> free;
    for (JobId id = graph_.begin(device); id < graph_.end(device); ++id) {
      for (const Instance instance : released_[id]) {
        const Block& block = blocks_[instance.block];
        free[block.bytes].push_back(OffsetOf(instance));
        num_live -= block.num_values;
        live_bytes -= block.live_bytes;
      }
      for (const Instance instance : made_[id]) {
        const Block& block = blocks_[instance.block];
        std::vector<int64_t>& offsets = free[block.bytes];
        if (offsets.empty()) {
          offsets.push_back(memory.arena_bytes);
          memory.arena_bytes += block.bytes;
        }
        OffsetOf(instance) = offsets.back();
        offsets.pop_back();
        num_live += block.num_values;
        live_bytes += block.live_bytes;
      }
      memory.peak_values = std::max(memory.peak_values, num_live);
      memory.peak_bytes = std::max(memory.peak_bytes, live_bytes);
    }
    plan_.devices_.push_back(memory);
  }

  int64_t& OffsetOf(Instance instance) {
    return plan_.block_offsets_[static_cast<size_t>(instance.block) *
                                    plan_.num_micro_batches_ +
                                instance.micro_batch];
  }

  const JobGraph& graph_;
  const Clocks& clocks_;
  const absl::Span<const ScheduleValue> values_;
  std::vector<Block> blocks_;
  std::vector<std::vector<Instance>> made_;      // By JobId.
  std::vector<std::vector<Instance>> released_;  // Before that Job starts.
  ValuePlan plan_;
};

std::string Describe(const JobClass& jobs) {
  return absl::StrCat(ToString(jobs.type), "(", jobs.stage, ")");
}

std::vector<ScheduleValue> ActivationsOf(
    absl::Span<const int64_t> bytes_of_stage) {
  std::vector<ScheduleValue> values;
  for (size_t i = 0; i < bytes_of_stage.size(); ++i) {
    const int stage = static_cast<int>(i);
    values.push_back({.name = absl::StrCat("activations ", stage),
                      .bytes = bytes_of_stage[i],
                      .producer = {JobType::kForward, stage},
                      .readers = {{JobType::kBackward, stage},
                                  {JobType::kBackwardInput, stage},
                                  {JobType::kBackwardWeight, stage}}});
  }
  return values;
}

absl::StatusOr<ValuePlan> ValuePlan::Build(
    const JobGraph& graph, absl::Span<const ScheduleValue> values) {
  MICA_ASSIGN_OR_RETURN(const Clocks clocks, Clocks::Build(graph));
  return ValuePlanner(graph, clocks, values).Plan();
}

}  // namespace mica
