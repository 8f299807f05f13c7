#include "python/torch_side/recorder/higher_order_ops.h"

#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/torch_compat.h"

namespace mica {

absl::Status LetHigherOrderOpsPass() {
  const auto get = [](const PyRef& owner, const char* name) {
    return owner ? PyRef::Steal(PyObject_GetAttrString(owner.get(), name))
                 : PyRef();
  };
  const PyRef ops = PyRef::Steal(PyImport_ImportModule("torch._ops"));
  const PyRef parse = get(PyRef::Steal(PyImport_ImportModule("torch._C")),
                          "_dispatch_key_parse");
  // What operators made later leave out, and all that there are.
  const PyRef later =
      get(ops, "_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS");
  const PyRef known = get(ops, "_higher_order_ops");
  bool is_done = parse && later && PyList_Check(later.get()) && known &&
                 PyDict_Check(known.get());
  for (const c10::DispatchKey key : {kRecorderKey, kPartsKey}) {
    const PyRef word = is_done ? PyRef::Steal(PyObject_CallFunction(
                                     parse.get(), "s", c10::toString(key)))
                               : PyRef();
    is_done = word && PyList_Append(later.get(), word.get()) == 0;
    Py_ssize_t position = 0;
    PyObject* op = nullptr;
    while (is_done && PyDict_Next(known.get(), &position, nullptr, &op)) {
      is_done = static_cast<bool>(PyRef::Steal(
          PyObject_CallMethod(op, "fallthrough", "O", word.get())));
    }
  }
  if (is_done) return absl::OkStatus();
  PyErr_Clear();
  return absl::UnimplementedError(
      "capture: this torch's higher-order operators are of another kind");
}

}  // namespace mica
