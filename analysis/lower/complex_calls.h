// Calls on complex numbers and on lazily conjugated or negated tensors.

#ifndef MICA_ANALYSIS_LOWER_COMPLEX_CALLS_H_
#define MICA_ANALYSIS_LOWER_COMPLEX_CALLS_H_

#include <string>

#include "analysis/lower/tape.h"

namespace mica {

// True if a complex number has a part in the call, or a tensor with a lazy bit:
// no operator that Mica knows computes with such, ATen does.
bool IsForAten(const Tape& tape, const TapeCall& call);

// What an opaque operator's name says of its operands, where the call takes a
// tensor with a lazy bit: "lazy.pcn.", a letter for each tensor in order, p for
// a plain one, c for conjugated, n for negated, b for both. Else "". Values of
// a Program are what memory holds; who runs the call puts the bits on.
std::string LazyPrefix(const Tape& tape, const TapeCall& call);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_COMPLEX_CALLS_H_
