// Regions with reductions: how they are cut into phases and blocks.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/op/region_code.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/reduce_layout.h"
#include "kernels/cpu/reduce_loop.h"
#include "kernels/cpu/reduce_run.h"
#include "kernels/cpu/region_phases.h"
#include "kernels/cpu/turned_reduction.h"

namespace mica::cpu {
namespace {

using ReduceKind = PhasePlace::Kind;

// Of a block: bytes and elements of short rows together, elements of a row that
// is taken as a whole, of a part of a longer row, of columns.
constexpr int64_t kShortRowsBytes = 24 * 1024;
constexpr int64_t kFewestShortRows = 1024, kMostShortRows = 4096;
// The first two of arrays that come from memory beyond the second-level cache:
// in large blocks memory waits while what came of it is computed with.
constexpr int64_t kFarShortRowsBytes = 8 * 1024;
constexpr int64_t kFarFewestShortRows = 256;
constexpr int64_t kFar = int64_t{2} << 20;  // Bytes of all arrays.
constexpr int64_t kWholeRow = 16384;
constexpr int64_t kRowPart = 2048;
constexpr int64_t kColumnBlock = 16384;
constexpr int64_t kWholeBlock = 65536;  // Of all rows of some columns.
constexpr int64_t kMostWholeRows = 256;
constexpr int64_t kFewestColumns = 64, kMostColumns = 1024;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool LaunchReduceRegion(const void* state, void* const* args, LaunchContext&) {
  const auto& region = *static_cast<const ReduceRegion*>(state);
  RunReduceRegion(region, args, static_cast<char*>(args[region.num_arrays]));
  return true;
}

// Whether a block takes all that is reduced of its kept places.
bool TakesWhole(const ReduceLayout& layout) {
  if (layout.reduced.count() > 1) return false;
  if (layout.reduces_both) return layout.rows * layout.columns <= kWholeRow;
  return layout.reduces_columns ? layout.columns <= kWholeRow
                                : layout.rows <= kMostWholeRows;
}

void DivideIntoBlocks(ReduceRegion& r) {
  const ReduceLayout& layout = r.layout;
  const bool is_whole = TakesWhole(layout);
  if (layout.reduces_both) {
    r.kept_block = 1;
    r.reduced_block =
        is_whole ? layout.rows
                 : std::min(layout.rows, CeilDiv(kRowPart, layout.columns));
  } else if (layout.reduces_columns) {
    r.kept_block = 1;  // More of short ones, once it is known what they take.
    r.reduced_block = is_whole ? layout.columns : kRowPart;
  } else {
    // For each thread, if there are no other places to share.
    const int64_t share =
        layout.kept.count() >= r.num_threads
            ? layout.columns
            : CeilDiv(layout.columns, std::max(r.num_threads, 1));
    const int64_t columns =
        is_whole ? std::min(kWholeBlock / layout.rows, share)
                 : CeilDiv(layout.columns, std::max(r.num_threads, 1));
    // Blocks of equal size, of whole vectors.
    constexpr int64_t kVector = 16;
    const int64_t most = std::clamp(columns, kFewestColumns, kMostColumns);
    const int64_t blocks = CeilDiv(layout.columns, most);
    const int64_t each = CeilDiv(layout.columns, blocks);
    r.kept_block = std::min(layout.columns, CeilDiv(each, kVector) * kVector);
    // As if one thread had all columns, so that sums have one order.
    const int64_t rows = kColumnBlock / std::min(layout.columns, kMostColumns);
    r.reduced_block = is_whole ? layout.rows : std::min(layout.rows, rows);
  }
  r.parts_per_place = CeilDiv(r.layout.reduced_size(), r.reduced_block);
  r.parts = layout.reduced.count() * r.parts_per_place;
  r.count = static_cast<double>(layout.num_reduced());
}

// As many short rows as stay in the first-level cache, with what is made of
// them.
void JoinShortRows(const RegionPhases& cut, const PhaseFacts& facts,
                   int64_t all_bytes, ReduceRegion& r) {
  const ReduceLayout& layout = r.layout;
  if (!layout.reduces_columns || layout.reduces_both || r.parts > 1) return;
  int64_t bytes = 0;
  for (int64_t tile : cut.tile_bytes) bytes += tile;
  for (size_t i = 0; i < facts.dtypes.size(); ++i) {
    if (!facts.is_reduced[i]) bytes += ElementBytes(facts.dtypes[i]);
  }
  const bool is_far = all_bytes > kFar;
  const int64_t elements = std::clamp(
      (is_far ? kFarShortRowsBytes : kShortRowsBytes) /
          std::max<int64_t>(bytes, 1),
      is_far ? kFarFewestShortRows : kFewestShortRows, kMostShortRows);
  r.kept_block = std::clamp<int64_t>(elements / layout.columns, 1, layout.rows);
}

void LayOutScratch(const RegionPhases& cut, ReduceRegion& r) {
  int64_t end = 0;
  for (int64_t bytes : cut.tile_bytes) {
    r.tile_offsets.push_back(end);
    end += AlignUp(bytes * r.kept_block * r.reduced_block *
                   (r.layout.reduces_both ? r.layout.columns : 1));
  }
  r.kept_area = end;
  end = 0;
  for (int64_t bytes : cut.kept_bytes) {
    r.kept_offsets.push_back(end);
    end += AlignUp(bytes * r.kept_block);
  }
  r.sums_area = r.kept_area + end;
  size_t most = 0;
  for (const Phase& phase : cut.phases) {
    most = std::max(most, phase.reductions.size());
  }
  if (r.parts > 1) {
    r.sums_bytes = r.layout.reduces_columns
                       ? AlignUp(8 * r.parts)
                       : AlignUp(16 * r.kept_block) + AlignUp(8 * r.kept_block);
  }
  r.scratch = r.sums_area + static_cast<int64_t>(most) * r.sums_bytes;
}

bool IsBroadcast(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  for (int i = 0; i < type.rank(); ++i) {
    if (type.dims[i] > 1 && strides[i] == 0) return true;
  }
  return false;
}

// An order for operands that are all broadcast: row-major, but that the axis
// along which most lie dense is the innermost one.
TensorType OrderOf(const KernelRequest& request, const Dims& dims) {
  const int rank = static_cast<int>(dims.size());
  if (rank == 0) return {.dims = dims};
  std::vector<int> num_dense(rank, 0);
  for (const Operand& operand : request.operands) {
    const Dims strides = operand.type.EffectiveStrides();
    const int lacks = rank - operand.type.rank();
    for (int i = 0; i < operand.type.rank(); ++i) {
      num_dense[lacks + i] += operand.type.dims[i] > 1 && strides[i] == 1;
    }
  }
  // The last of equal ones.
  const auto most = std::max_element(num_dense.rbegin(), num_dense.rend());
  const int inner = static_cast<int>(num_dense.rend() - most) - 1;
  TensorType order{.dims = dims};
  order.strides.resize(rank);
  order.strides[inner] = 1;
  int64_t stride = dims[inner];
  for (int i = rank - 1; i >= 0; --i) {
    if (i == inner) continue;
    order.strides[i] = stride;
    stride *= dims[i];
  }
  return order;
}

// The arrays with the one first by whose memory the loops run: the first of all
// elements, of dense ones if there are some; `order` if there is none. One that
// is broadcast has no order.
std::vector<const TensorType*> ArraysOf(const KernelRequest& request,
                                        const TensorType& order) {
  std::vector<const TensorType*> types;
  for (const Operand& operand : request.operands) {
    types.push_back(&operand.type);
  }
  for (const Operand& result : request.results) types.push_back(&result.type);
  const auto is_full = [&](const TensorType* type) {
    return type->dims == order.dims && !IsBroadcast(*type);
  };
  const auto is_dense = [&](const TensorType* type) {
    return is_full(type) && type->is_dense();
  };
  auto at = std::find_if(types.begin(), types.end(), is_dense);
  if (at == types.end()) at = std::find_if(types.begin(), types.end(), is_full);
  types.insert(types.begin(), at == types.end() ? &order : *at);
  return types;
}

// For a result the operands whose bytes it may take: those that lie like it and
// that nothing reads once it is written.
uint32_t InplaceOperands(const KernelRequest& request, const RegionPhases& cut,
                         int result) {
  const int num_operands = static_cast<int>(request.operands.size());
  const PhasePlace* written = nullptr;
  size_t phase_of_result = 0;
  int instruction = 0;
  for (size_t p = 0; p < cut.phases.size(); ++p) {
    const PhaseLoop& loop = cut.phases[p].elements;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (loop.results[i].kind == ReduceKind::kArray &&
          loop.results[i].index == num_operands + result) {
        written = &loop.results[i];
        phase_of_result = p;
        instruction = loop.code.results[i];
      }
    }
  }
  if (written == nullptr) return 0;
  const auto is_read_later = [&](int operand) {
    for (size_t p = phase_of_result; p < cut.phases.size(); ++p) {
      const Phase& phase = cut.phases[p];
      for (const PhaseReduction& reduction : phase.reductions) {
        if (reduction.from.kind == ReduceKind::kArray &&
            reduction.from.index == operand) {
          return true;
        }
      }
      for (const PhaseLoop* loop : {&phase.kept, &phase.elements}) {
        const bool is_same = p == phase_of_result && loop == &phase.elements;
        for (size_t i = 0; i < loop->code.instructions.size(); ++i) {
          if (is_same && static_cast<int>(i) <= instruction) continue;
          for (const RegionCode::Ref& ref :
               loop->code.instructions[i].operands) {
            if (ref.kind == RegionCode::Ref::Kind::kOperand &&
                loop->operands[ref.index].kind == ReduceKind::kArray &&
                loop->operands[ref.index].index == operand) {
              return true;
            }
          }
        }
      }
    }
    return false;
  };
  uint32_t bits = 0;
  const TensorType& self = request.results[result].type;
  for (int i = 0; i < num_operands && i < 32; ++i) {
    const TensorType& type = request.operands[i].type;
    if (LiesAlike(type, self) && !is_read_later(i)) bits |= 1u << i;
  }
  return bits;
}

// What the operands broadcast to.
Dims AllDims(const KernelRequest& request) {
  Dims all;
  for (const Operand& operand : request.operands) {
    const Dims& dims = operand.type.dims;
    if (dims.size() > all.size()) {
      all.insert(all.begin(), dims.size() - all.size(), 1);
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      Dim& to = all[all.size() - dims.size() + d];
      to = to == 1 ? dims[d] : to;
    }
  }
  return all;
}

bool BroadcastsAlong(const TensorType& type, const std::vector<bool>& axes) {
  const size_t lacks = axes.size() - type.dims.size();
  for (size_t d = 0; d < type.dims.size(); ++d) {
    if (axes[lacks + d] && type.dims[d] != 1) return false;
  }
  return true;
}

bool ReducesWhatIsReduced(const RegionCode& code,
                          const std::vector<bool>& operands) {
  using Ref = RegionCode::Ref;
  const std::vector<bool> is_reduced = code.FindReduced(operands);
  return std::any_of(code.instructions.begin(), code.instructions.end(),
                     [&](const RegionCode::Instruction& instruction) {
                       if (!instruction.op->reduces()) return false;
                       const Ref& ref = instruction.operands[0];
                       return ref.kind == Ref::Kind::kNumber ||
                              (ref.kind == Ref::Kind::kOperand
                                   ? operands[ref.index]
                                   : is_reduced[ref.index]);
                     });
}

PhaseFacts FactsOf(const KernelRequest& request, const std::vector<bool>& axes,
                   const ReduceRegion& r) {
  PhaseFacts facts{.keeps_tiles = r.parts == 1};
  const ReduceLayout& layout = r.layout;
  const auto add_array = [&](const TensorType& type) {
    const size_t array = facts.is_plain.size();
    const int64_t bytes = ElementBytes(type.dtype);
    const bool has_whole_rows =
        (layout.reduces_both || r.kept_block == layout.columns) &&
        layout.row_steps[array] == layout.columns * bytes;
    const bool has_rows = layout.reduces_columns && !layout.reduces_both;
    facts.is_plain.push_back(
        (layout.column_steps[array] == bytes || layout.columns == 1) &&
        (has_rows || has_whole_rows));
  };
  for (const Operand& operand : request.operands) {
    facts.dtypes.push_back(operand.type.dtype);
    // Along axes of one element nothing is any smaller.
    facts.is_reduced.push_back(layout.num_reduced() > 1 &&
                               BroadcastsAlong(operand.type, axes));
    add_array(operand.type);
  }
  for (const Operand& result : request.results) {
    facts.results_used.push_back(result.is_used);
    add_array(result.type);
  }
  return facts;
}

std::optional<std::string> MakePhases(const RegionPhases& cut,
                                      ReduceRegion& r) {
  const ReduceLayout& layout = r.layout;
  std::vector<int64_t> kept_steps;
  for (size_t a = 0; a < r.num_arrays; ++a) {
    kept_steps.push_back(layout.kept_step(a));
  }
  const int64_t columns = layout.reduces_both      ? layout.columns
                          : layout.reduces_columns ? r.reduced_block
                                                   : r.kept_block;
  // Loops on what is kept run once a block: few of them aren't worth code. What
  // is wanted first is compiled first.
  constexpr int64_t kFewBlocks = 8, kFewKept = 4096;
  const bool wants_kept_code =
      r.blocks >= kFewBlocks || layout.num_kept() >= kFewKept;
  for (const Phase& phase : cut.phases) {
    ReadyPhase ready;
    for (const PhaseReduction& reduction : phase.reductions) {
      ready.reductions.push_back(MakeReady(reduction, layout.reduces_columns));
    }
    if (auto no = ReduceLoop::Make(phase.elements, layout.column_steps,
                                   !layout.reduces_columns, columns,
                                   /*wants_code=*/true, ready.elements)) {
      return no;
    }
    r.phases.push_back(std::move(ready));
  }
  for (size_t i = 0; i < cut.phases.size(); ++i) {
    if (auto no = ReduceLoop::Make(cut.phases[i].kept, kept_steps, true,
                                   r.layout.kept_size(), wants_kept_code,
                                   r.phases[i].kept)) {
      return no;
    }
  }
  return std::nullopt;
}

// Of all arrays.
int64_t BytesOf(const KernelRequest& request) {
  int64_t bytes = 0;
  for (const Operand& operand : request.operands) {
    bytes += operand.type.num_bytes();
  }
  for (const Operand& result : request.results) {
    if (result.is_used) bytes += result.type.num_bytes();
  }
  return bytes;
}

void SetStreamed(const KernelRequest& request, const RegionPhases& cut,
                 ReduceRegion& r) {
  std::vector<bool> is_streamed(r.num_arrays, false);
  for (size_t i = 0; i < request.results.size(); ++i) {
    is_streamed[request.operands.size() + i] = request.results[i].is_used;
  }
  const auto is_read = [&](const PhasePlace& place) {
    if (place.kind == ReduceKind::kArray) is_streamed[place.index] = false;
  };
  for (const Phase& phase : cut.phases) {
    for (const PhaseLoop* loop : {&phase.kept, &phase.elements}) {
      for (const PhasePlace& place : loop->operands) is_read(place);
    }
    for (const PhaseReduction& reduction : phase.reductions) {
      is_read(reduction.from);
    }
  }
  for (size_t a = 0; a < is_streamed.size(); ++a) {
    if (is_streamed[a]) r.streamed.push_back(static_cast<int>(a));
  }
  for (ReadyPhase& phase : r.phases) phase.elements.Stream(is_streamed);
}

// Whether loops are of a few elements each, for many kept places around them.
bool HasTinyBlocks(const ReduceLayout& layout) {
  constexpr int64_t kFew = 128, kMany = 8;
  return layout.kept_size() * layout.num_reduced() <= kFew &&
         layout.kept.count() >= kMany;
}

Verdict PrepareReduceCode(const KernelRequest& request, const RegionCode& code,
                          bool is_turned) {
  const Dims dims = AllDims(request);
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return No{"has no elements"};
  }
  auto region = std::make_shared<ReduceRegion>();
  ReduceRegion& r = *region;
  r.num_arrays = request.operands.size() + request.results.size();
  if (r.num_arrays > kMostReduceArrays) return No{"too many operands"};
  std::vector<bool> axes(dims.size(), false);
  for (int64_t axis : code.axes) axes[axis] = true;
  const TensorType order = OrderOf(request, dims);
  r.layout = LayOutReduction(dims, axes, ArraysOf(request, order));
  // The first array was there only for the order.
  r.layout.row_steps.erase(r.layout.row_steps.begin());
  r.layout.column_steps.erase(r.layout.column_steps.begin());
  r.layout.kept.steps.erase(r.layout.kept.steps.begin());
  r.layout.reduced.steps.erase(r.layout.reduced.steps.begin());
  if (!is_turned && HasTinyBlocks(r.layout)) {
    RegionCode turned = code;
    turned.axes = {0};
    Verdict verdict = PrepareTurnedReduction(
        request, dims, axes, [&turned](const KernelRequest& inner) {
          return PrepareReduceCode(inner, turned, /*is_turned=*/true);
        });
    if (std::holds_alternative<Prepared>(verdict)) return verdict;
  }
  r.num_threads = UsefulThreads(request.num_threads,
                                r.layout.num_kept() * r.layout.num_reduced());
  DivideIntoBlocks(r);
  const PhaseFacts facts = FactsOf(request, axes, r);
  if (ReducesWhatIsReduced(code, facts.is_reduced)) {
    return No{"reduces what is reduced"};
  }
  const RegionPhases cut = CutPhases(code, facts);
  const int64_t bytes = BytesOf(request);
  JoinShortRows(cut, facts, bytes, r);
  r.blocks_per_place = CeilDiv(r.layout.kept_size(), r.kept_block);
  r.blocks = r.layout.kept.count() * r.blocks_per_place;
  LayOutScratch(cut, r);
  if (auto no = MakePhases(cut, r)) return No{*no};
  if (IsWorthStreaming(bytes)) SetStreamed(request, cut, r);
  Prepared prepared;
  prepared.launch = LaunchReduceRegion;
  prepared.never_fails = true;
  prepared.scratch_bytes = r.scratch * std::max(r.num_threads, 1);
  if (prepared.scratch_bytes == 0) prepared.scratch_bytes = AlignUp(1);
  prepared.inplace_operands = InplaceOperands(request, cut, 0);
  for (size_t i = 1; i < request.results.size(); ++i) {
    prepared.more_inplace.push_back(
        InplaceOperands(request, cut, static_cast<int>(i)));
  }
  prepared.state = std::move(region);
  return prepared;
}

Verdict PrepareReduceRegion(const KernelRequest& request) {
  const auto code = RegionCode::ParseReducing(request.String(1));
  if (!code.ok()) return No{"malformed code"};
  return PrepareReduceCode(request, *code, /*is_turned=*/false);
}

}  // namespace

void RegisterReduceRegions(KernelRegistry& registry) {
  registry.Add("mica.reduce", kRealDTypes, KernelRank::kFast,
               {"cpu.reduce_region", PrepareReduceRegion});
}

}  // namespace mica::cpu
