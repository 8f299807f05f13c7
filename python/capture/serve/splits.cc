#include "python/capture/serve/splits.h"

#include <utility>

#include "python/capture/serve/stance.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

constexpr size_t kMaxFunctions = 256;  // That become graphs of their own.

bool Put(PyObject* dict, const char* key, PyRef value) {
  return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

}  // namespace

Splits::Splits(CompiledOptions options) : options_(std::move(options)) {
  options_.capture.is_piece = true;
  options_.capture.varying = VaryingNumbers();
}

bool Splits::LearnSite(const FrameSite& site, const std::string& why) {
  const Key key{site.code.get(), site.module.get()};
  auto [it, is_new] = wanted_.try_emplace(key);
  Wanted& wanted = it->second;
  if (is_new) {
    wanted.code = site.code;
    wanted.module = site.module;
  }
  if (const auto known = functions_.find(key); known != functions_.end()) {
    return known->second != nullptr && known->second->Cut(site.unit, why);
  }
  return wanted.cuts.try_emplace(site.unit, why).second;
}

void Splits::LearnFrom(const Refusal& refusal) {
  for (const FrameSites& place : refusal.places) {
    for (const FrameSite& site : place) LearnSite(site, refusal.reason);
  }
}

bool Splits::LearnFromPiece(const Refusal& refusal, CutFunction* from,
                            PyObject* code,
                            const std::vector<int32_t>& origins) {
  bool is_new = false;
  for (const FrameSites& place : refusal.places) {
    for (const FrameSite& site : place) {
      if (site.code.get() != code) {
        is_new |= LearnSite(site, refusal.reason);
      } else if (site.unit < static_cast<int32_t>(origins.size()) &&
                 origins[site.unit] >= 0) {
        is_new |= from->Cut(origins[site.unit], refusal.reason);
      }
    }
  }
  return is_new;
}

std::shared_ptr<CutFunction> Splits::FindFunction(const NewFrame& frame) {
  PyObject* code = reinterpret_cast<PyObject*>(frame.code);
  if (codes_.contains(code)) return nullptr;
  PyObject* module = nullptr;
  if (frame.code->co_argcount > 0 && frame.variables[0] != nullptr &&
      IsTorchModule(frame.variables[0])) {
    module = frame.variables[0];
  }
  const Key key{code, module};
  if (const auto it = functions_.find(key); it != functions_.end()) {
    return it->second;
  }
  const auto wanted = wanted_.find(key);
  const bool is_forward =
      module != nullptr && frame.is_module_call &&
      PyUnicode_CompareWithASCIIString(frame.code->co_name, "forward") == 0;
  if ((wanted == wanted_.end() && !is_forward) || !IsCuttable(frame.code) ||
      functions_.size() >= kMaxFunctions) {
    return nullptr;
  }
  auto made = std::make_shared<CutFunction>(
      PyRef::Share(reinterpret_cast<PyObject*>(frame.function)),
      PyRef::Share(module), options_, &codes_);
  if (!made->CanBeCut()) {
    order_.push_back(std::move(made));  // Its address stays taken.
    functions_[key] = nullptr;
    return nullptr;
  }
  if (wanted != wanted_.end()) {
    for (const auto& [unit, why] : wanted->second.cuts) made->Cut(unit, why);
  }
  functions_[key] = made;
  order_.push_back(made);
  return made;
}

bool Splits::Evaluate(const NewFrame& frame, SplitEvents* events,
                      PyRef* result) {
  const std::shared_ptr<CutFunction> function = FindFunction(frame);
  if (function == nullptr || !function->Fits(frame.function)) return false;
  const auto learn = [this](const Refusal& refusal, CutFunction* from,
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
  {
    const FrameHook hook([&](const NewFrame& frame, PyRef* made) {
      if (IsCapturing() || IsDisabled()) return false;
      return Evaluate(frame, &events, made);
    });
    result = PyRef::Steal(PyObject_Vectorcall(
        callable, args.args, static_cast<size_t>(args.num_positional),
        args.keyword_names));
  }
  events_ = events;
  return result.release();
}

bool Splits::Report(PyObject* report) const {
  PyRef pieces = PyRef::Steal(PyList_New(0));
  PyRef cuts = PyRef::Steal(PyList_New(0));
  if (!pieces || !cuts) return false;
  for (const auto& function : order_) {
    if (!function->Report(pieces.get(), cuts.get())) return false;
  }
  return Put(report, "pieces", std::move(pieces)) &&
         Put(report, "cuts", std::move(cuts));
}

int Splits::Traverse(visitproc visit, void* arg) const {
  for (const auto& function : order_) {
    if (const int stop = function->Traverse(visit, arg)) return stop;
  }
  for (const auto& [key, wanted] : wanted_) {
    Py_VISIT(wanted.code.get());
    Py_VISIT(wanted.module.get());
  }
  return 0;
}

}  // namespace mica
