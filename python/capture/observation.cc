#include "python/capture/observation.h"

#include <utility>

#include "framework/base/same_bits.h"
#include "python/capture/autograd_access.h"
#include "python/interpreter/frame_hook.h"

namespace mica {

Observation::Observation(std::string title)
    : caller(PyEval_GetFrame()),
      watch(caller),
      recorder(std::move(title),
               {.is_making_tensor = [this] { return watch.is_making_tensor(); },
                .is_allocating = [this] { return watch.is_allocating(); },
                .on_leaf = [this](PyObject* t) { watch.gradients().See(t); },
                .places = [this] { return SitesBelow(caller); }}) {
  watch.SetOnMade([this](PyObject* tensor) { recorder.AddConstant(tensor); });
  watch.SetOnHostCall(
      [this](bool begins) { begins ? recorder.Stop() : recorder.Start(); });
  watch.SetOnStepEnd(
      [this](PyObject* result, bool entered) { EndStep(result, entered); });
}

void Observation::EndStep(PyObject* result, bool entered) {
  const Recorder::Mark now = recorder.now();
  const bool gave_float = result != nullptr && PyFloat_CheckExact(result);
  if (follows_numbers && gave_float && !watch.is_annotated_call() &&
      now.host_reads == mark.host_reads + 1) {
    int32_t call = 0;
    const double* read = recorder.FloatRead(mark.host_reads, &call);
    if (read != nullptr && SameBits(*read, PyFloat_AS_DOUBLE(result))) {
      watch.values().AddRead(result, call, 0);
    }
  }
  std::vector<PassedNumbers> passed(watch.passed().begin(),
                                    watch.passed().end());
  if (follows_numbers && watch.passes_tensors() && !entered && !gave_float) {
    AddReadArguments(now, &passed);
  }
  if (!passed.empty() && (!entered || now.calls != mark.calls)) {
    const bool is_tracked =
        IsGradModeOn() &&
        (result == nullptr || (IsTensor(result) && RequiresGrad(result)));
    if (!recorder.PlaceNumbers(mark, passed, is_tracked)) {
      for (const PassedNumbers& numbers : passed) {
        for (const TapeHostOperand& item : numbers.items) {
          if (item.id >= 0) watch.values().MarkExactId(item.id);
        }
      }
    }
  }
  mark = now;
}

void Observation::AddReadArguments(const Recorder::Mark& now,
                                   std::vector<PassedNumbers>* passed) {
  for (size_t i = mark.host_reads; i < now.host_reads; ++i) {
    int32_t call = 0;
    const double* read = recorder.FloatRead(i, &call);
    if (read == nullptr) return;
    const PyRef number = PyRef::Steal(PyFloat_FromDouble(*read));
    if (!number) return PyErr_Clear();
    const HostValues::Id id = watch.values().AddRead(number.get(), call, 0);
    passed->push_back({.items = {{.id = id, .constant = *read}}});
  }
}

}  // namespace mica
