#include "python/capture/watch/table_reads.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool TableReads::IsTable(PyObject* container) {
  const bool is_list = PyList_CheckExact(container);
  if (!is_list && !PyTuple_CheckExact(container) && !IsArray(container)) {
    return false;
  }
  if (IsInput(container) || !IsOld(container)) return false;
  if (is_list) return !containers_.Has(container);
  // Of what is in a tensor's memory, the Program knows more.
  return !IsArray(container) || values_.TensorOf(container) == nullptr;
}

bool TableReads::UseItem(PyObject* container, PyObject* key) {
  const HostValues::Id id = values_.Find(key);
  if (refusal() || id < 0 || !PyLong_CheckExact(key) || !IsTable(container)) {
    return false;
  }
  static PyObject* ask = FunctionInPython("number_at", "mica.grown").release();
  PyRef item = ask == nullptr ? PyRef()
                              : PyRef::Steal(PyObject_CallFunctionObjArgs(
                                    ask, container, key, nullptr));
  if (!item) PyErr_Clear();
  if (!item || !ScalarOf(item.get()).has_value()) return false;
  item_ = draws_.LookUp(ask, container, key, item,
                        absl::StrCat("an item of ", PathOf(container)));
  if (!item_) return false;
  if (values_.Find(item_.get()) >= 0) {
    values_.StandFor(item_.get(), item.get());
  }
  return true;
}

void TableReads::EndStep(PyObject** top) {
  PyRef item = std::exchange(item_, PyRef());
  if (item && top != nullptr && *top != nullptr) {
    Py_SETREF(*top, item.release());
  }
}

}  // namespace mica
