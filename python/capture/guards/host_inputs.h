// The numbers of a record that vary.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_HOST_INPUTS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_HOST_INPUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/loose_ref.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Read anew at each hit, each of the type that it had.
class HostInputs {
 public:
  HostInputs() = default;
  explicit HostInputs(std::vector<NumberSource> sources)
      : sources_(std::move(sources)) {}

  bool empty() const { return sources_.empty(); }
  absl::Span<const NumberSource> sources() const { return sources_; }
  // Reads all but what is drawn, which is left 0; false if one is no such
  // number any more.
  bool Read(const BoundInputs& inputs, std::vector<double>* values,
            Miss* miss) const;
  // Calls `let_go` on the dicts of items.
  void LetGo(absl::FunctionRef<void(LooseRef*)> let_go);
  void AppendText(std::vector<std::string>* lines) const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  std::vector<NumberSource> sources_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_HOST_INPUTS_H_
