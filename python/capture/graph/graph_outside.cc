// Graphs that a compiler other than Mica's own runs.

#include <complex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/text/text.h"
#include "python/capture/graph/graph.h"

namespace mica {
namespace {

// What Python raised, which it forgets.
std::string TakeError() {
  const PyRef error = TakePyError();
  if (!error) return "an error";
  const PyRef text = PyRef::Steal(PyObject_Str(error.get()));
  if (!text) PyErr_Clear();
  return absl::StrCat(Py_TYPE(error.get())->tp_name, ": ", PyText(text.get()));
}

// Builds a list; once something failed it stays null.
class ListMaker {
 public:
  ListMaker() : list_(PyRef::Steal(PyList_New(0))) {}
  void Add(const PyRef& item) {
    if (!list_ || !item || PyList_Append(list_.get(), item.get()) != 0) {
      list_ = PyRef();
    }
  }
  void Add(int64_t number) { Add(PyRef::Steal(PyLong_FromLongLong(number))); }
  void Add(double number) { Add(PyRef::Steal(PyFloat_FromDouble(number))); }
  const PyRef& list() const { return list_; }

 private:
  PyRef list_;
};

template <typename Items>
PyRef Numbers(const Items& items) {
  ListMaker maker;
  for (const int64_t item : items) maker.Add(item);
  return maker.list();
}

PyRef Tensors(absl::Span<PyObject* const> tensors) {
  ListMaker maker;
  for (PyObject* tensor : tensors) {
    maker.Add(PyRef::Share(tensor == nullptr ? Py_None : tensor));
  }
  return maker.list();
}

PyRef Floats(absl::Span<const double> numbers) {
  ListMaker maker;
  for (const double number : numbers) maker.Add(number);
  return maker.list();
}

PyRef Tuple(const PyRef& a, const PyRef& b) {
  if (!a || !b) return PyRef();
  return PyRef::Steal(PyTuple_Pack(2, a.get(), b.get()));
}

PyRef ToPython(const TapeValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    return PyRef::Steal(PyBool_FromLong(*flag));
  }
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return PyRef::Steal(PyLong_FromLongLong(*number));
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return PyRef::Steal(PyFloat_FromDouble(*real));
  }
  if (const auto* number = std::get_if<std::complex<double>>(&value)) {
    return PyRef::Steal(PyComplex_FromDoubles(number->real(), number->imag()));
  }
  return PyRef::Share(Py_None);
}

}  // namespace

absl::Status Graph::CompileOutside(PyObject* make_runner,
                                   absl::Span<PyObject* const> inputs,
                                   absl::Span<PyObject* const> states,
                                   absl::Span<const double> numbers,
                                   absl::Span<const int> fed) {
  ListMaker constants, reads, results;
  for (const TapeTensorId id : lowered_.large_constants) {
    const std::string& bytes = *tape_.tensors[id].bytes;
    constants.Add(PyRef::Steal(PyBytes_FromStringAndSize(
        bytes.data(), static_cast<Py_ssize_t>(bytes.size()))));
  }
  for (size_t i = 0; i < lowered_.host_reads.size(); ++i) {
    const TapeHostRead& read = tape_.host_reads[i];
    if (lowered_.host_reads[i] == LoweredTape::kProven) continue;
    reads.Add(Tuple(PyRef::Steal(PyLong_FromLong(lowered_.host_reads[i])),
                    ToPython(tape_.calls[read.call].outputs[read.output])));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].dtype < 0) continue;
    const PyRef sizes = Numbers(outputs_[i].sizes);
    const PyRef strides = Numbers(outputs_[i].strides);
    if (!sizes || !strides) return absl::InternalError(TakeError());
    results.Add(PyRef::Steal(Py_BuildValue("(nOO)", static_cast<Py_ssize_t>(i),
                                           sizes.get(), strides.get())));
  }
  const std::string text = ToText(*program_);
  const std::pair<const char*, PyRef> entries[] = {
      {"program",
       PyRef::Steal(PyUnicode_DecodeUTF8(
           text.data(), static_cast<Py_ssize_t>(text.size()), "replace"))},
      {"states", Tensors(states)},
      {"fed", Numbers(fed)},
      {"constants", constants.list()},
      {"inputs", Tensors(inputs)},
      {"numbers", Floats(numbers)},
      {"reads", reads.list()},
      {"host_results", Numbers(lowered_.host_results)},
      {"results", results.list()}};
  const PyRef dict = PyRef::Steal(PyDict_New());
  for (const auto& [key, value] : entries) {
    if (!dict || !value ||
        PyDict_SetItemString(dict.get(), key, value.get()) != 0) {
      return absl::InternalError(TakeError());
    }
  }
  runner_ = PyRef::Steal(
      PyObject_CallFunctionObjArgs(make_runner, dict.get(), nullptr));
  if (runner_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the backend raised ", TakeError()));
}

absl::Status Graph::RunOutside(absl::Span<PyObject* const> inputs,
                               absl::Span<PyObject* const> states,
                               absl::Span<const double> numbers,
                               const BeforeCommit& before_commit,
                               std::vector<PyRef>* results,
                               std::vector<double>* host_results) const {
  const PyRef args[] = {Tensors(inputs), Tensors(states), Floats(numbers)};
  PyRef found;
  if (args[0] && args[1] && args[2]) {
    found = PyRef::Steal(PyObject_CallFunctionObjArgs(
        runner_.get(), args[0].get(), args[1].get(), args[2].get(), nullptr));
  }
  if (!found) {
    return absl::InternalError(
        absl::StrCat("what the backend made raised ", TakeError()));
  }
  if (found.get() == Py_None) {
    return absl::AbortedError("a number that the program reads from a tensor");
  }
  PyObject* tensors = PyTuple_GET_ITEM(found.get(), 0);
  PyObject* floats = PyTuple_GET_ITEM(found.get(), 1);
  std::vector<PyRef> outputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs.push_back(
        PyRef::Share(PyList_GET_ITEM(tensors, static_cast<Py_ssize_t>(i))));
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(floats); ++i) {
    host_results->push_back(PyFloat_AsDouble(PyList_GET_ITEM(floats, i)));
  }
  // What is written in place has been by now; Record::Finish() lets no such
  // Program come here with calls to be made before.
  const absl::Status made =
      MakeResults(inputs, states, /*moved=*/{}, outputs, results);
  if (!made.ok()) return made;
  if (!before_commit || before_commit(*results, *host_results)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("a call into the world outside raised");
}

}  // namespace mica
