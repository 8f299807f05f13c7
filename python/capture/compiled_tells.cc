// What a compiled callable tells of its records, and the stance "check".

#include <memory>
#include <utility>
#include <vector>

#include "python/capture/compiled.h"
#include "python/capture/describe.h"

namespace mica {
namespace {

// Null, with a Python error set, if either is.
PyObject* Pair(PyRef first, PyRef second) {
  if (!first || !second) return nullptr;
  return PyTuple_Pack(2, first.get(), second.get());
}

}  // namespace

PyObject* Compiled::Describe() const {
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const auto& record : records_) {
    const PyRef item = DescribeRecord(*record);
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* Compiled::Touched(const CallArgs& args) const {
  const TorchState now = TorchState::Current();
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const auto& record : records_) {
    Record::BoundCall bound;
    if (!record->Matches(args, now, &bound, nullptr)) continue;
    const PyRef item = DescribeTouched(*record);
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* Compiled::Rehearse(const CallArgs& args) {
  const TorchState now = TorchState::Current();
  for (size_t i = 0; i < records_.size(); ++i) {
    const std::shared_ptr<Record> record = records_[i];
    PyRef result;
    Rehearsal rehearsal;
    switch (record->Serve(args, now, &result, nullptr, &rehearsal)) {
      case Record::Outcome::kHit:
        NoteHit(record);
        readings_ = std::move(rehearsal.readings);
        return Pair(std::move(result), DescribeCalls(rehearsal.calls));
      case Record::Outcome::kMiss:
        continue;
      case Record::Outcome::kFailed:
        Py_RETURN_NONE;
    }
  }
  Py_RETURN_NONE;
}

PyObject* Compiled::Watch(const CallArgs& args) {
  PyRef result;
  Rehearsal rehearsal{.readings = std::exchange(readings_, {})};
  const Refusal refusal = Record::Watch(callable_.get(), args, options_.capture,
                                        &result, &rehearsal);
  if (!result) return nullptr;
  if (!refusal) return Pair(std::move(result), DescribeCalls(rehearsal.calls));
  return Pair(std::move(result),
              PyRef::Steal(PyUnicode_FromString(refusal.ToString().c_str())));
}

}  // namespace mica
