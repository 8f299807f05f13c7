// A decoder that Python exported, with its cache.

#ifndef MICA_TOOLS_DECODE_DECODER_H_
#define MICA_TOOLS_DECODE_DECODER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/executor.h"
#include "framework/ir/program.h"
#include "framework/tensor/tensor.h"

namespace mica {

struct DecoderOptions {
  // Folder of the Program that takes one token.
  std::string step_folder;
  // Of one that takes several at a time; empty: there is none.
  std::string prompt_folder;
  int num_threads = 1;
};

// Programs that take the next tokens of one text and give the logits of what
// comes after them. What came before is in their variables, a cache that they
// share by name, as they share the weights.
//
// Of a Program's inputs, all i64, one of two dims takes tokens, [1, n]; others,
// if there are any, take the places of these in the text: [], [n] or [1, n].
// Logits are its first result: the last row of [..., words]. Single-thread.
class Decoder {
 public:
  // Errors name the folder, and the input that isn't of those kinds.
  static absl::StatusOr<std::unique_ptr<Decoder>> Open(
      const DecoderOptions& options);

  // Takes the next tokens, at least one: as many at a time as Programs do.
  // Returns the logits after the last one.
  absl::StatusOr<std::vector<float>> Take(absl::Span<const int64_t> tokens);
  // How many it took.
  int64_t num_tokens() const { return num_tokens_; }
  // Whether weights are packed: none is written by one Program and only read
  // by the other.
  bool is_frozen() const { return is_frozen_; }

 private:
  struct Part {
    std::string folder;
    std::shared_ptr<const Program> program;
    ValueId tokens = kNoValue;
    std::vector<ValueId> places;
    int64_t count = 0;  // Of tokens at a time; 0: any number from 2 on.
  };

  Decoder() = default;
  absl::StatusOr<Part> Read(const std::string& folder);
  absl::Status FindInputs(Part& part) const;
  absl::StatusOr<std::vector<float>> Run(const Part& part,
                                         absl::Span<const int64_t> tokens);

  Part step_, prompt_;
  std::map<std::string, Tensor> variables_;
  NamedViews views_;  // Of them.
  std::unique_ptr<Executor> executor_;
  int64_t num_tokens_ = 0;
  bool is_frozen_ = true;
};

}  // namespace mica

#endif  // MICA_TOOLS_DECODE_DECODER_H_
