// Regions, an instruction at a time: elementwise ones element by element, those
// with reductions a whole array at a time.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "framework/op/region_code.h"
#include "glog/logging.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/region_element.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

using Ref = RegionCode::Ref;

RegionElement LoadLane(const Lane& lane, void* const* args, int64_t offset) {
  if (IsFloating(lane.dtype)) return {.real = lane.Load<double>(args, offset)};
  return {.integer = lane.Load<int64_t>(args, offset)};
}

void StoreLane(const Lane& lane, void* const* args, int64_t offset,
               const RegionElement& element) {
  if (IsFloating(lane.dtype)) {
    lane.Store(args, offset, element.real);
  } else {
    lane.Store(args, offset, element.integer);
  }
}

struct Region {
  RegionCode code;
  std::vector<Lane> operands, results;
  std::vector<Dims> strides;  // Of the operands, then of the results.
  Dims dims;                  // What the operands broadcast to.
  // Of those with reductions.
  std::vector<bool> axes;              // Reduced ones.
  std::vector<bool> is_reduced;        // By instruction.
  int64_t num_elements = 1, kept = 1;  // Of dims, and of the other axes.
};

void RunElementwise(const Region& region, void* const* args) {
  const size_t num_operands = region.operands.size();
  std::vector<RegionElement> operands(num_operands);
  std::vector<RegionElement> made(region.code.instructions.size());
  for (Odometer at(region.dims, region.strides); !at.done(); at.Next()) {
    for (size_t i = 0; i < num_operands; ++i) {
      operands[i] =
          LoadLane(region.operands[i], args, at.offset(static_cast<int>(i)));
    }
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = EvaluateInstruction(
          region.code.instructions[i], [&](const Ref& ref) -> RegionNumber {
            if (ref.kind == Ref::Kind::kOperand) {
              return {operands[ref.index], region.operands[ref.index].dtype};
            }
            return {made[ref.index],
                    region.code.instructions[ref.index].result_dtype()};
          });
    }
    for (size_t r = 0; r < region.results.size(); ++r) {
      if (region.results[r].IsUnused(args)) continue;
      StoreLane(region.results[r], args,
                at.offset(static_cast<int>(num_operands + r)),
                made[region.code.results[r]]);
    }
  }
}

// All results of all instructions: one element for each place of the dims, or
// of the axes that are kept.
class ReducingRun {
 public:
  ReducingRun(const Region& region, void* const* args)
      : region_(region), args_(args), made_(region.code.instructions.size()) {}

  void Run() {
    for (size_t i = 0; i < made_.size(); ++i) {
      const RegionCode::Instruction& from = region_.code.instructions[i];
      made_[i].resize(region_.is_reduced[i] ? region_.kept
                                            : region_.num_elements);
      if (from.op->reduces()) {
        Reduce(from, made_[i]);
      } else {
        ForEachPlace([&](const Odometer& at, int64_t element, int64_t kept) {
          made_[i][region_.is_reduced[i] ? kept : element] =
              EvaluateInstruction(from, [&](const Ref& ref) {
                return Number(ref, at, element, kept);
              });
        });
      }
    }
    for (size_t r = 0; r < region_.results.size(); ++r) Store(r);
  }

 private:
  // Calls visit(at, element, kept) for each place of the dims.
  template <typename Visit>
  void ForEachPlace(const Visit& visit) const {
    int64_t element = 0;
    for (Odometer at(region_.dims, region_.strides); !at.done(); at.Next()) {
      int64_t kept = 0;
      for (size_t d = 0; d < region_.dims.size(); ++d) {
        if (!region_.axes[d]) kept = kept * region_.dims[d] + at.index()[d];
      }
      visit(at, element++, kept);
    }
  }

  RegionNumber Number(const Ref& ref, const Odometer& at, int64_t element,
                      int64_t kept) const {
    if (ref.kind == Ref::Kind::kNumber) {
      return {{.real = ref.number}, DType::kF64};
    }
    if (ref.kind == Ref::Kind::kOperand) {
      const Lane& lane = region_.operands[ref.index];
      return {LoadLane(lane, args_, at.offset(ref.index)), lane.dtype};
    }
    return {made_[ref.index][region_.is_reduced[ref.index] ? kept : element],
            region_.code.instructions[ref.index].result_dtype()};
  }

  // In double, so that the order doesn't matter.
  void Reduce(const RegionCode::Instruction& from,
              std::vector<RegionElement>& to) const {
    const RegionOpId op = from.op->id;
    const DType dtype = ComputeDType(from.dtype);
    std::vector<bool> has_one(to.size(), false);
    std::vector<double> less(to.size(), 0);
    ForEachPlace([&](const Odometer& at, int64_t element, int64_t kept) {
      const RegionElement next =
          ConvertedElement(Number(from.operands[0], at, element, kept), dtype);
      if (op == RegionOpId::kMean) {
        less[kept] = Number(from.operands[1], at, element, kept).element.real;
      }
      RegionElement& all = to[kept];
      if (op == RegionOpId::kSum || op == RegionOpId::kMean) {
        all.real += next.real;
        all.integer = static_cast<int64_t>(static_cast<uint64_t>(all.integer) +
                                           static_cast<uint64_t>(next.integer));
      } else if (!has_one[kept] || Wins(op, next, all)) {
        all = next;
      }
      has_one[kept] = true;
    });
    if (op == RegionOpId::kMean) {
      const double count =
          static_cast<double>(region_.num_elements / region_.kept);
      for (size_t kept = 0; kept < to.size(); ++kept) {
        to[kept].real /= std::max(count - less[kept], 0.0);
      }
    }
    const DType sum = IsFloating(from.dtype) ? DType::kF64 : DType::kI64;
    for (RegionElement& element : to) {
      element = ConvertedElement({element, sum}, from.dtype);
    }
  }

  static bool Wins(RegionOpId op, const RegionElement& next,
                   const RegionElement& all) {
    if (std::isnan(all.real)) return false;
    if (std::isnan(next.real)) return true;
    const bool is_more = next.real > all.real ||
                         (next.real == all.real && next.integer > all.integer);
    const bool is_same = next.real == all.real && next.integer == all.integer;
    return op == RegionOpId::kAmax ? is_more : !is_more && !is_same;
  }

  void Store(size_t r) const {
    if (region_.results[r].IsUnused(args_)) return;
    const int id = region_.code.results[r];
    const int set = static_cast<int>(region_.operands.size() + r);
    ForEachPlace([&](const Odometer& at, int64_t element, int64_t kept) {
      StoreLane(region_.results[r], args_, at.offset(set),
                made_[id][region_.is_reduced[id] ? kept : element]);
    });
  }

  const Region& region_;
  void* const* args_;
  std::vector<std::vector<RegionElement>> made_;
};

Region RegionOf(const KernelRequest& request) {
  auto code = RegionCode::ParseReducing(request.String(1));
  CHECK(code.ok()) << code.status();  // Inference has parsed it.
  Region region = {.code = *std::move(code)};
  for (size_t i = 0; i < request.operands.size(); ++i) {
    region.operands.push_back(OperandLane(request, 0, static_cast<int>(i)));
    const Dims dims = region.operands.back().dims, before = region.dims;
    Dims all(std::max(dims.size(), region.dims.size()), 1);
    for (const Dims* from : {&dims, &before}) {
      for (size_t d = 0; d < from->size(); ++d) {
        Dim& to = all[all.size() - from->size() + d];
        to = to == 1 ? (*from)[d] : to;
      }
    }
    region.dims = std::move(all);
  }
  for (const Lane& operand : region.operands) {
    region.strides.push_back(BroadcastStrides(operand, region.dims));
  }
  for (size_t r = 0; r < request.results.size(); ++r) {
    region.results.push_back(ResultLane(request, static_cast<int>(r)));
    region.strides.push_back(
        BroadcastStrides(region.results.back(), region.dims));
  }
  return region;
}

Verdict PrepareRegion(const KernelRequest& request) {
  return RunBody(
      [region = RegionOf(request)](void* const* args, LaunchContext&) {
        RunElementwise(region, args);
        return true;
      });
}

Verdict PrepareReducing(const KernelRequest& request) {
  Region region = RegionOf(request);
  region.axes.assign(region.dims.size(), false);
  for (int64_t axis : region.code.axes) region.axes[axis] = true;
  for (size_t d = 0; d < region.dims.size(); ++d) {
    region.num_elements *= region.dims[d];
    if (!region.axes[d]) region.kept *= region.dims[d];
  }
  std::vector<bool> operands;
  for (const Lane& operand : region.operands) {
    bool is_reduced = true;
    const size_t lacks = region.dims.size() - operand.dims.size();
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      is_reduced =
          is_reduced && (!region.axes[lacks + d] || operand.dims[d] == 1);
    }
    operands.push_back(is_reduced);
  }
  region.is_reduced = region.code.FindReduced(operands);
  return RunBody(
      [region = std::move(region)](void* const* args, LaunchContext&) {
        ReducingRun(region, args).Run();
        return true;
      });
}

}  // namespace

void RegisterReferenceRegions(KernelRegistry& registry) {
  AddReference(registry, "mica.elementwise", PrepareRegion);
  AddReference(registry, "mica.reduce", PrepareReducing);
}

}  // namespace mica
