#include "python/capture/watch/observation.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "framework/base/same_bits.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/frame_hook.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {

Observation::Observation(std::string title)
    : caller(PyEval_GetFrame()),
      watch(caller),
      recorder(std::move(title),
               {.is_making_tensor = [this] { return watch.is_making_tensor(); },
                .is_allocating = [this] { return watch.is_allocating(); },
                .on_leaf =
                    [this](PyObject* tensor, bool is_alias) {
                      if (is_alias && !watch.ages().IsKnownOld(tensor)) return;
                      watch.tensors().gradients().See(tensor);
                    },
                .places = [this] { return SitesBelow(caller); },
                .on_fixed_number =
                    [this](int32_t number) {
                      watch.values().MarkExactId(number);
                    }}) {
  watch.SetRecorder(
      {.on_made = [this](PyObject* tensor) { recorder.AddConstant(tensor); },
       .on_host_call =
           [this](bool begins) {
             begins ? recorder.Stop() : recorder.Start();
             begins ? watch.modes().Show() : watch.modes().Hide();
           },
       .num_calls = [this] { return recorder.num_calls(); },
       .find_maker =
           [this](PyObject* tensor) {
             const Recorder::MadeBy by = recorder.FindMaker(tensor);
             return std::array{by.call, by.output, by.item};
           },
       .on_saved_read = [this] { recorder.FixPlaces(true); }});
  watch.ways().SetNameOf(
      [this](PyObject* tensor) { return recorder.Find(tensor); });
  watch.SetOnStepEnd(
      [this](PyObject** result, bool entered) { EndStep(result, entered); });
}

void Observation::FollowSizes() {
  watch.loops().Begin();
  watch.sizes().Begin(
      [this](PyObject* tensor) { return recorder.Find(tensor); });
}

void Observation::EndStep(PyObject** top, bool entered) {
  const Recorder::Mark now = recorder.now();
  watch.modes().Hide();
  if (watch.sizes().is_on()) {
    watch.sizes().EndStep(
        top, entered,
        {.first = static_cast<int32_t>(mark.calls),
         .end = static_cast<int32_t>(now.calls),
         .reads_number = now.host_reads != mark.host_reads,
         .only_op =
             now.calls == mark.calls + 1 ? recorder.OpOf(mark.calls) : ""});
  }
  PyObject* result = top == nullptr ? nullptr : *top;
  const std::optional<double> given =
      result == nullptr ? std::nullopt : NumberOf(result);
  if (follows_numbers && given.has_value() && !watch.is_annotated_call() &&
      now.host_reads == mark.host_reads + 1) {
    const auto read = recorder.NumberRead(mark.host_reads);
    // float(tensor) of ints reads one of these.
    const bool is_number = read.has_value() && (read->type == Py_TYPE(result) ||
                                                PyFloat_CheckExact(result));
    if (is_number && SameBits(read->value, *given)) {
      if (PyRef own = NewNumber(result)) {
        watch.values().AddRead(own.get(), read->call, 0);
        result = own.get();
        Py_SETREF(*top, own.release());
      }
    }
  }
  if (!watch.numbers().places().empty()) SettlePlaces(now, result);
  const absl::Span<const PassedNumbers> known = watch.numbers().passed();
  std::vector<PassedNumbers> passed(known.begin(), known.end());
  if (follows_numbers && watch.numbers().passes_tensors() && !entered &&
      !given.has_value()) {
    AddReadArguments(now, &passed);
  }
  if (!passed.empty() && (!entered || now.calls != mark.calls)) {
    const bool is_tracked =
        IsGradModeOn() &&
        (result == nullptr || (IsTensor(result) && RequiresGrad(result)));
    const bool is_placed = recorder.PlaceNumbers(mark, passed, is_tracked);
    const bool is_float32 = is_placed && recorder.GaveFloat32(mark);
    for (const PassedNumbers& numbers : passed) {
      for (const TapeHostOperand& item : numbers.items) {
        if (item.id < 0) continue;
        if (!is_placed) watch.values().MarkExactId(item.id);
        // a + b computes in float64 where the number is too large.
        if (numbers.is_data ||
            (is_float32 && !numbers.is_operand && !numbers.is_list)) {
          watch.values().DemandFloat32(item.id);
        }
      }
    }
  }
  watch.ways().EndStep(top == nullptr ? nullptr : *top, now.host_reads,
                       recorder.LastRead());
  NoteSizeReads(now);
  mark = now;
}

void Observation::NoteSizeReads(const Recorder::Mark& now) {
  const auto reads = watch.values().exact_reads().subspan(
      std::exchange(num_exact_reads, watch.values().exact_reads().size()));
  if (reads.empty() || now.calls == mark.calls) return;
  size_reads.insert(size_reads.end(), reads.begin(), reads.end());
  if (keeps_size_reads) return;
  recorder.RefuseCall(
      mark.calls, "goes by a number of a tensor as by a size, and it varies",
      "masks keep sizes");
}

void Observation::SettlePlaces(const Recorder::Mark& now, PyObject* result) {
  const bool is_tracked =
      IsGradModeOn() &&
      (RequiresGrad(watch.numbers().indexed()) ||
       (result != nullptr && IsTensor(result) && RequiresGrad(result)));
  std::vector<int64_t> sizes;
  const bool are_placed =
      follows_numbers && follows_places && ReadPlaces(now) &&
      recorder.PlacePlaces(mark, watch.numbers().places(), is_tracked, &sizes);
  if (are_placed) watch.sizes().KeepSizes();
  watch.numbers().SettlePlaces(are_placed, sizes);
}

bool Observation::ReadPlaces(const Recorder::Mark& now) {
  const size_t count = absl::c_count_if(
      watch.numbers().places(),
      [](const PassedPlace& place) { return place.is_tensor; });
  if (now.host_reads != mark.host_reads + count) return count == 0;
  std::vector<TapeHostOperand> numbers;
  for (size_t i = mark.host_reads; i < now.host_reads; ++i) {
    const auto read = recorder.NumberRead(i);
    if (!read.has_value() || read->type != &PyLong_Type) return false;
    const PyRef number = MakeNumber(read->type, read->value);
    const PyRef own = number ? NewNumber(number.get()) : PyRef();
    if (!own) {
      PyErr_Clear();
      return false;
    }
    numbers.push_back({.id = watch.values().AddRead(own.get(), read->call, 0),
                       .constant = read->value});
  }
  watch.numbers().SetPlacesRead(numbers);
  return true;
}

void Observation::AddReadArguments(const Recorder::Mark& now,
                                   std::vector<PassedNumbers>* passed) {
  for (size_t i = mark.host_reads; i < now.host_reads; ++i) {
    const auto read = recorder.NumberRead(i);
    if (!read.has_value() || read->type != &PyFloat_Type) return;
    const PyRef number = MakeNumber(read->type, read->value);
    if (!number) return PyErr_Clear();
    const HostValues::Id id =
        watch.values().AddRead(number.get(), read->call, 0);
    passed->push_back({.items = {{.id = id, .constant = read->value}}});
  }
}

}  // namespace mica
