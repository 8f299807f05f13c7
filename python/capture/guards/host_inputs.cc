#include "python/capture/guards/host_inputs.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"

namespace mica {

MICA_HIT_CODE bool HostInputs::Read(const BoundInputs& inputs,
                                    std::vector<double>* values,
                                    Miss* miss) const {
  values->clear();
  for (const NumberSource& source : sources_) {
    if (source.draw >= 0) {
      values->push_back(0);
      continue;
    }
    PyObject* number =
        source.node < 0 ? source.FindItem() : inputs.objects[source.node];
    PyTypeObject* type = Py_TYPE(source.recorded.get());
    if (number != nullptr && Py_TYPE(number) == type) {
      if (const std::optional<double> value = NumberOf(number)) {
        values->push_back(*value);
        continue;
      }
    }
    if (miss != nullptr) {
      *miss = {.kind = "state",
               .note = source.note,
               .expected = absl::StrCat("a number, ", TypeName(type)),
               .got = DescribeValue(number)};
    }
    return false;
  }
  return true;
}

void HostInputs::LetGo(absl::FunctionRef<void(LooseRef*)> let_go) {
  for (NumberSource& source : sources_) let_go(&source.dict);
}

void HostInputs::AppendText(std::vector<std::string>* lines) const {
  for (const NumberSource& source : sources_) {
    // Told among the arguments, and the effects.
    if (source.node >= 0 || source.draw >= 0) continue;
    lines->push_back(absl::StrCat(source.note.path, " is any ",
                                  TypeName(Py_TYPE(source.recorded.get()))));
  }
}

int HostInputs::Traverse(visitproc visit, void* arg) const {
  for (const NumberSource& source : sources_) {
    Py_VISIT(source.dict.held());
    Py_VISIT(source.key.get());
    Py_VISIT(source.recorded.get());
  }
  return 0;
}

}  // namespace mica
