// What ATen's schemas don't tell about its ops.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_OP_FACTS_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_OP_FACTS_H_

#include <initializer_list>
#include <vector>

#include "absl/strings/string_view.h"

namespace mica {

struct OpFacts {
  // Arguments that the op writes though its schema doesn't say so,
  std::vector<int> hidden_writes;
  // and the bool argument on which that depends; -1 for always.
  int writes_if = -1;
  // Its fresh output has no defined contents.
  bool is_uninitialized = false;
  // Leaves nothing of what a tensor that it writes held: each, or this
  // argument.
  static constexpr int kNone = -2, kEach = -1;
  int overwrites = kNone;
  // Answers from metadata alone, which guards cover: not recorded.
  bool is_metadata_only = false;
  // Gives an empty tensor memory, in place, and computes nothing.
  bool resizes = false;
  // Why a program with it can't be captured, or null.
  const char* refuse = nullptr;
};

// By TapeCall::op; an op that isn't listed has no such facts.
OpFacts FindOpFacts(absl::string_view op);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_OP_FACTS_H_
