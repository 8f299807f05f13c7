#include "python/capture/serve/splits.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/serve/report_values.h"
#include "python/capture/serve/stance.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/stack_space.h"

namespace mica {
namespace {

constexpr size_t kMaxFunctions = 256;  // That become graphs of their own.

bool IsGone(const PyRef& weak) {
  return weak && PyWeakref_GET_OBJECT(weak.get()) == Py_None;
}

// Whether what a closure holds is of the program's text: what decorators wrap,
// classes, constants. Nobody waits for these to die.
bool HoldsTextOnly(PyObject* closure) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* value = PyCell_GET(PyTuple_GET_ITEM(closure, i));
    if (value == nullptr || PyFunction_Check(value) || PyType_Check(value) ||
        PyModule_Check(value) || PyCFunction_Check(value) ||
        IsConstant(value)) {
      continue;
    }
    return false;
  }
  return true;
}

std::string LineOf(PyObject* code, int32_t unit) {
  auto* object = reinterpret_cast<PyCodeObject*>(code);
  constexpr int kUnitBytes = 2;
  // A place may be the second half of an instruction (mica/pieces/bytecode.py).
  constexpr int32_t kUnitBits = (1 << 28) - 1;
  const int line = PyCode_Addr2Line(object, (unit & kUnitBits) * kUnitBytes);
  return absl::StrCat(PyText(object->co_filename), ":",
                      line > 0 ? line : object->co_firstlineno);
}

// A new dict in `list`: of a function, the line in question, and why.
bool AddReason(PyObject* list, const std::string& name, const std::string& at,
               const std::string& reason) {
  const PyRef dict = PyRef::Steal(PyDict_New());
  return list != nullptr && dict && Put(dict.get(), "name", Text(name)) &&
         Put(dict.get(), "at", Text(at)) &&
         Put(dict.get(), "reason", Text(reason)) &&
         PyList_Append(list, dict.get()) == 0;
}

}  // namespace

Splits::Splits(CompiledOptions options) : options_(std::move(options)) {
  options_.capture.is_piece = true;
  options_.capture.promoted = PromotedScalars();
}

Splits::Known& Splits::KnownOf(PyObject* code, PyObject* module) {
  Known& known = known_[{code, module}];
  if (known.code && !IsGone(known.module)) return known;
  known = {.code = PyRef::Share(code)};
  if (module == nullptr) return known;
  known.module = PyRef::Steal(PyWeakref_NewRef(module, nullptr));
  if (!known.module) PyErr_Clear();
  return known;
}

void Splits::DropGone() {
  std::vector<Known> gone;  // Code that their ends run may come here.
  for (auto it = known_.begin(); it != known_.end();) {
    if (!IsGone(it->second.module)) {
      ++it;
      continue;
    }
    gone.push_back(std::move(it->second));
    it = known_.erase(it);
  }
}

bool Splits::LearnSite(const FrameSite& site, const std::string& why) {
  Known& known = KnownOf(site.code.get(), site.module.get());
  if (known.is_made) {
    return known.function != nullptr &&
           known.function->AddBreak(site.unit, why);
  }
  return known.breaks.try_emplace(site.unit, why).second;
}

void Splits::LearnFrom(const Refusal& refusal) {
  for (const FrameSites& place : refusal.places) {
    for (const FrameSite& site : place) LearnSite(site, refusal.reason);
  }
}

bool Splits::LearnFromPiece(const Refusal& refusal, SplitFunction* from,
                            PyObject* code,
                            const std::vector<int32_t>& origins) {
  bool is_new = false;
  for (const FrameSites& place : refusal.places) {
    for (const FrameSite& site : place) {
      if (site.code.get() != code) {
        is_new |= LearnSite(site, refusal.reason);
      } else if (site.unit < static_cast<int32_t>(origins.size()) &&
                 origins[site.unit] >= 0) {
        is_new |= from->AddBreak(origins[site.unit], refusal.reason);
      }
    }
  }
  return is_new;
}

bool Splits::IsLasting(Known& known, const NewFrame& frame) const {
  auto* object = reinterpret_cast<PyObject*>(frame.function);
  PyObject* closure = frame.function->func_closure;
  if (closure == nullptr || frame.is_module_call || HoldsTextOnly(closure)) {
    return true;
  }
  if (object == (PyMethod_Check(callable_) ? PyMethod_GET_FUNCTION(callable_)
                                           : callable_)) {
    return true;
  }
  if (known.last && PyWeakref_GET_OBJECT(known.last.get()) == object) {
    return true;
  }
  known.last = PyRef::Steal(PyWeakref_NewRef(object, nullptr));
  if (!known.last) PyErr_Clear();
  return false;
}

std::shared_ptr<SplitFunction> Splits::FindFunction(const NewFrame& frame) {
  PyObject* code = reinterpret_cast<PyObject*>(frame.code);
  if (codes_.contains(code)) return nullptr;
  PyObject* module = nullptr;
  if (frame.code->co_argcount > 0 && frame.variables[0] != nullptr &&
      IsTorchModule(frame.variables[0])) {
    module = frame.variables[0];
  }
  const auto it = known_.find({code, module});
  const bool is_known = it != known_.end() && !IsGone(it->second.module);
  if (is_known && it->second.is_made) return it->second.function;
  const bool is_forward =
      module != nullptr && frame.is_module_call &&
      PyUnicode_CompareWithASCIIString(frame.code->co_name, "forward") == 0;
  if ((!is_known && !is_forward) || !CanSplit(frame.code) ||
      known_.size() >= kMaxFunctions) {
    return nullptr;
  }
  Known& known = KnownOf(code, module);
  if (!IsLasting(known, frame)) return nullptr;
  known.is_made = true;
  auto made = std::make_shared<SplitFunction>(
      PyRef::Share(reinterpret_cast<PyObject*>(frame.function)), options_,
      &codes_);
  known.why_whole = made->WhyWhole();
  if (!known.why_whole.empty()) return nullptr;
  for (const auto& [unit, why] : known.breaks) made->AddBreak(unit, why);
  known.function = made;
  order_.push_back(made);
  return made;
}

bool Splits::Evaluate(const NewFrame& frame, SplitEvents* events,
                      PyRef* result) {
  if (IsStackLow()) return false;
  const std::shared_ptr<SplitFunction> function = FindFunction(frame);
  if (function == nullptr || !function->Fits(frame.function)) return false;
  const auto learn = [this](const Refusal& refusal, SplitFunction* from,
                            PyObject* code,
                            const std::vector<int32_t>& origins) {
    return LearnFromPiece(refusal, from, code, origins);
  };
  *result = PyRef::Steal(function->Run(frame.variables, learn, events));
  return true;
}

PyObject* Splits::Call(PyObject* callable, const CallArgs& args) {
  SplitEvents events;
  PyRef result;
  DropGone();
  // Calls nest where a step of one calls another.
  PyObject* const outer = std::exchange(callable_, callable);
  {
    const FrameHook hook([&](const NewFrame& frame, PyRef* made) {
      if (IsCapturing() || IsDisabled()) return false;
      return Evaluate(frame, &events, made);
    });
    result = PyRef::Steal(PyObject_Vectorcall(
        callable, args.args, static_cast<size_t>(args.num_positional),
        args.keyword_names));
  }
  callable_ = outer;
  events_ = events;
  return result.release();
}

bool Splits::Report(PyObject* report) const {
  PyRef pieces = PyRef::Steal(PyList_New(0));
  PyRef breaks = PyRef::Steal(PyList_New(0));
  if (!pieces || !breaks) return false;
  for (const auto& made : order_) {
    const auto function = made.lock();
    if (function == nullptr) continue;
    if (!function->Report(pieces.get(), breaks.get())) return false;
  }
  PyRef whole = PyRef::Steal(PyList_New(0));
  for (const auto& [key, known] : known_) {
    if (known.why_whole.empty()) continue;
    auto* code = reinterpret_cast<PyCodeObject*>(known.code.get());
    if (!AddReason(whole.get(), PyText(code->co_qualname),
                   LineOf(known.code.get(), 0), known.why_whole)) {
      return false;
    }
  }
  return Put(report, "pieces", std::move(pieces)) &&
         Put(report, "graph_breaks", std::move(breaks)) &&
         Put(report, "unsplit", std::move(whole));
}

int Splits::Traverse(visitproc visit, void* arg) const {
  for (const auto& [key, known] : known_) {
    Py_VISIT(known.code.get());
    Py_VISIT(known.module.get());
    // One under way has holders that the collector doesn't know.
    if (known.function == nullptr || known.function.use_count() > 1) continue;
    if (const int stop = known.function->Traverse(visit, arg)) return stop;
  }
  return 0;
}

std::string SplitFunction::Where(int64_t entry) const {
  return LineOf(PyFunction_GET_CODE(function_.get()),
                static_cast<int32_t>(entry < 0 ? -1 - entry : entry));
}

bool SplitFunction::Report(PyObject* pieces, PyObject* breaks) const {
  const std::string name = PyText(
      reinterpret_cast<PyFunctionObject*>(function_.get())->func_qualname);
  for (const auto& [key, piece] : pieces_) {
    if (piece->compiled == nullptr || piece->has_no_ops ||
        (piece->compiled->LastNumOps() == 0 && piece->left_eager.empty() &&
         piece->compiled->num_refusals() == 0)) {
      continue;
    }
    PyRef dict = PyRef::Steal(piece->compiled->Report());
    PyRef ends = PyRef::Steal(PyList_New(0));
    if (!dict || !ends) return false;
    for (const auto& [exit, how] : piece->exits) {
      PyRef where = Text(Where(exit));
      if (!where || PyList_Append(ends.get(), where.get()) != 0) return false;
    }
    if (!Put(dict.get(), "name", Text(name)) ||
        !Put(dict.get(), "begins", Text(Where(piece->entry))) ||
        !Put(dict.get(), "ends", std::move(ends)) ||
        !Put(dict.get(), "left_eager", Text(piece->left_eager)) ||
        PyList_Append(pieces, dict.get()) != 0) {
      return false;
    }
  }
  for (const auto& [at, reason] : reasons_) {
    if (!AddReason(breaks, name, Where(at), reason)) return false;
  }
  return true;
}

}  // namespace mica
