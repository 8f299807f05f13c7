// Calls over lists of tensors, as optimizers make them, taken apart.

#ifndef MICA_ANALYSIS_LOWER_FOREACH_H_
#define MICA_ANALYSIS_LOWER_FOREACH_H_

#include <optional>
#include <vector>

#include "analysis/lower/tape.h"
#include "framework/op/op_registry.h"

namespace mica {

// The calls on one tensor each, in the order of the lists, that
// aten._foreach_add_.List and its kind stand for, by ATen's naming rule: it
// calls aten.add_.Tensor. Those of aten._fused_adamw_ and its kind are
// mica.adam_step. Nothing if `call` is of another kind or if `registry` lacks
// the operator.
std::optional<std::vector<TapeCall>> ExpandForeach(const TapeCall& call,
                                                   const OpRegistry& registry);

// The same calls of the operator itself, each with lists of one item. Requires:
// it writes its results in place. Empty if its lists differ in size.
std::vector<TapeCall> TakeItemByItem(const TapeCall& call);

// True if a call writes several tensors one after the other, and what it writes
// of one is part of another that it writes or reads ([a, a], or [a] + [b], [b]
// + [a]): the call can't be taken as one that reads all before it writes.
bool WritesShared(const Tape& tape, const TapeCall& call);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_FOREACH_H_
