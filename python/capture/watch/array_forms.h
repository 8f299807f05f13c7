// What is known of numpy's arrays, functions and indices.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ARRAY_FORMS_H_
#define MICA_PYTHON_CAPTURE_WATCH_ARRAY_FORMS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// What a function of numpy's is called there; "" for another one.
std::string NumpyName(PyObject* callable);
// What a function of numpy's that is in Python runs; null for any other.
PyRef CodeInPython(PyObject* callable);
// Of methods: whether they may show an array's memory in another form, which
// arguments of which IsForm() is true say.
bool GivesView(absl::string_view name);
bool IsForm(PyObject* argument);
// Ints, slices of ints, None and `...`, by which torch shows what numpy does.
bool IsPlainIndex(PyObject* key);

// A function of torch's, torch.add, as it is before the program replaces any.
// A new reference; null if there is none.
PyObject* FunctionOfTorch(const char* name);
// numpy's word for what torch calls "torch.float32".
std::string DtypeName(PyObject* dtype);
// Whether numpy neither raises nor calls anybody on overflow and its like.
bool IsQuiet();

// Whether a tensor's elements lie one behind the other, the last dim's first.
bool IsInOrder(PyObject* tensor);
// Whether a tensor is in a memory that numpy may share: not so one that is
// sparse, or below a transform of torch.func.
bool HasMemory(PyObject* tensor);
// Whether two tensors may be joined, by a new dim or the first one.
bool MayJoin(PyObject* a, PyObject* b, bool new_dim);
// Whether two tensors show the same memory alike.
bool ShowAlike(PyObject* a, PyObject* b);
// Of the tensor, what another shows of its memory; null if that isn't so. A
// view, by an operator.
PyRef WindowLike(PyObject* tensor, PyObject* other);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ARRAY_FORMS_H_
