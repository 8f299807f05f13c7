#include "python/capture/watch/builtin_calls.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/effects/sinks.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/call_facts.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/kept_casts.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void BuiltinCalls::Call(PyObject* callable, absl::Span<PyObject* const> args,
                        PyObject* keyword_names) {
  const CallAnnotation* known = FindAnnotation(callable);
  // A method bound to an object takes that as its first argument.
  std::vector<PyObject*> all;
  const PyRef self = parts_.objects.SelfOfCall(callable);
  if (self) all.push_back(self.get());
  all.insert(all.end(), args.begin(), args.end());
  if (known != nullptr && !(known->read.empty() && known->changed.empty())) {
    return parts_.annotated.Call(*known, callable, all, keyword_names);
  }
  if (parts_.handles.Moves(callable, all)) return;
  if (!self && CallInPython(callable, all, keyword_names)) return;
  const BuiltinCall call{
      .callable = callable,
      .known = known,
      .kind = known == nullptr ? CallKind::kUnknown : known->kind,
      .args = args,
      .all = all,
      .keyword_names = keyword_names};
  if (!FollowsNumbers(call.kind)) {
    for (PyObject* arg : all) values_.MarkExactDeep(arg);
  }
  if (!all.empty() && ChangesContainer(callable, all[0])) {
    NoteChange(all[0]);
    // An item that it sets by name is followed as such.
    const bool is_by_name = call.kind == CallKind::kUseItem && all.size() > 1 &&
                            PyDict_CheckExact(all[0]) &&
                            PyUnicode_CheckExact(all[1]);
    if (IsOld(all[0]) && !is_by_name) parts_.containers.AddUnknown(all[0]);
  }
  if (!CallOnTensors(call) && !CallOnValues(call) && !CallOnState(call) &&
      !CallOutside(call)) {
    RefuseCall(callable);
  }
}

bool BuiltinCalls::CallOnTensors(const BuiltinCall& call) {
  const absl::Span<PyObject* const> all = call.all;
  TensorWatch& tensors = parts_.tensors;
  switch (call.kind) {
    case CallKind::kReadsData:
      ReadData(call);
      return true;
    case CallKind::kReadsOffset:
      tensors.ReadOffsets(all);
      return true;
    case CallKind::kRecurrent:
      // (data, batch_sizes, state, weights, …) as against (input, state,
      // weights, …).
      if (all.size() > 3 && (PyList_Check(all[3]) || PyTuple_Check(all[3]))) {
        tensors.ReadLengths(all[1]);
      }
      TouchAll(call);
      return true;
    case CallKind::kBackward:
      tensors.RunBackward(all);
      return true;
    case CallKind::kRequiresGrad:
      tensors.RequireGrad(all);
      return true;
    case CallKind::kRetainsGrad:
      tensors.RetainGrad(all);
      return true;
    case CallKind::kDetaches:
      tensors.DetachInPlace(all);
      return true;
    case CallKind::kSplit:
      if (all.size() > 1 && IsTensor(all[1])) {
        Refuse("splits a tensor where another tensor says");
      } else {
        CallPure(call);
      }
      return true;
    case CallKind::kMakesTensor: {
      const std::string name = CallableName(call.callable);
      tensors.Make(all, absl::EndsWith(name, ".tensor") ||
                            absl::EndsWith(name, ".new_tensor"));
      return true;
    }
    case CallKind::kOperator:
      step_.is_allocating = IsAllocation(call.callable);
      if (MayCallKernelInPython(call.callable)) {
        for (PyObject* argument : all) values_.MarkExactDeep(argument);
      }
      parts_.numbers.PassArguments(all);
      return true;
    default:
      return false;
  }
}

bool BuiltinCalls::CallOnValues(const BuiltinCall& call) {
  const absl::Span<PyObject* const> all = call.all;
  switch (call.kind) {
    case CallKind::kNumberFunction:
      if (all.size() == 1 && values_.Find(all[0]) >= 0) {
        const std::string name = CallableName(call.callable);
        parts_.numbers.Compute(
            FindHostOp(
                absl::StrCat("mica.scalar_", name.substr(name.rfind('.') + 1))),
            {all[0]});
      } else {
        CallPure(call);
      }
      return true;
    case CallKind::kPure:
      CallPure(call);
      return true;
    case CallKind::kMoves:
      Move(call);
      return true;
    case CallKind::kRegistry:
      if (asked_ != nullptr) AddAnswer(*asked_->RegistryToken());
      [[fallthrough]];
    case CallKind::kTypes:
      AskTypes(call);
      return true;
    case CallKind::kIdentity:
      TakeAddress(call);
      return true;
    case CallKind::kText:
      parts_.texts.Make(call.callable, all, call.keyword_names);
      return true;
    case CallKind::kNew:
      New(call);
      return true;
    default:
      return false;
  }
}

void BuiltinCalls::SetState(absl::string_view name) {
  if (absl::EndsWith(name, "._push_saved_tensors_default_hooks")) {
    parts_.tensors.NoteSavedTensorHooks();
  }
  if (absl::EndsWith(name, "clear_autocast_cache") && IsAutocastBlockOpen()) {
    Refuse("drops what autocast keeps, in a block of autocast that goes on");
  }
}

bool BuiltinCalls::CallOnState(const BuiltinCall& call) {
  const absl::Span<PyObject* const> all = call.all;
  static PyObject* dict = Interned("__dict__");
  switch (call.kind) {
    case CallKind::kSetsState:
      SetState(CallableName(call.callable));
      return true;
    case CallKind::kReadsState:
      if (CallableName(call.callable) == "sys.gettrace") {
        step_.in_place_of_call = MutedCall(nullptr);
      }
      return true;
    case CallKind::kAsksAgain:
      AskAgain(call);
      return true;
    case CallKind::kReadsModes:
      // It would see those that are left.
      if (modes_.are_hidden()) RefuseCall(call.callable);
      return true;
    case CallKind::kDeviceBlock:
      if (all.empty() || !IsCpuDevice(all[0])) RefuseCall(call.callable);
      modes_.Show();  // Of which the block's is one.
      return true;
    case CallKind::kGetAttr:
    case CallKind::kSetAttr:
      UseAttribute(call);
      return true;
    case CallKind::kVars:
      if (all.empty()) return false;
      parts_.attributes.Read(all[0], dict);
      return true;
    case CallKind::kUseItem:
      if (all.size() >= 2) parts_.items.UseBy(call.callable, all);
      return true;
    case CallKind::kContext:
      UseContext(call);
      return true;
    case CallKind::kLock:
      // Waits for it; the others are done with it by then.
      if (all.empty() || (all.size() != 1 && all.size() != 4)) return false;
      parts_.objects.Touch(all[0]);
      return true;
    case CallKind::kReduce:
      Reduce(call);
      return true;
    default:
      return false;
  }
}

bool BuiltinCalls::CallOutside(const BuiltinCall& call) {
  switch (call.kind) {
    case CallKind::kPrint:
      parts_.host_calls.Print(call.callable, call.args, call.keyword_names);
      return true;
    case CallKind::kWarn:
      parts_.messages.Warn(call.args, call.keyword_names);
      return true;
    case CallKind::kNewFilters:
      parts_.host_calls.Add(call.callable, {}, nullptr, "_filters_mutated",
                            {.kind = Sink::Kind::kSilent});
      return true;
    case CallKind::kEndsGraph:
    case CallKind::kLog:
    case CallKind::kHost:
    case CallKind::kSeeds:
    case CallKind::kDraw:
    case CallKind::kAsk:
    case CallKind::kClock:
    case CallKind::kGenerator:
      parts_.annotated.Call(*call.known, call.callable, call.all,
                            call.keyword_names);
      return true;
    default:
      return false;
  }
}

void BuiltinCalls::TouchAll(const BuiltinCall& call, int depth) {
  for (PyObject* arg : call.all) parts_.objects.Touch(arg, depth);
}

void BuiltinCalls::ReadData(const BuiltinCall& call) {
  const bool is_packed =
      absl::EndsWith(CallableName(call.callable), "._pad_packed_sequence");
  if (!is_packed || call.all.size() < 2) {
    return parts_.tensors.ReadData(call.callable, call.all);
  }
  parts_.tensors.ReadLengths(call.all[1]);
  step_.is_making_tensor = true;  // The lengths that it gives.
  parts_.objects.Touch(call.all[0]);
}

void BuiltinCalls::CallPure(const BuiltinCall& call) {
  const absl::Span<PyObject* const> all = call.all;
  const bool has_keywords = call.keyword_names != nullptr;
  if (!has_keywords && parts_.functions.Ask(call.callable, all)) return;
  step_.makes_array = IsNumpyCall(call.callable, all);
  if (step_.makes_array) parts_.arrays.TouchContext();
  step_.makes_iterator = all.size() == 1 && !PyIter_Check(all[0]);
  if (all.size() == 1 && CallableName(call.callable) == "builtins.hash") {
    parts_.identity.TakeHash(all[0]);
  } else if (AsksIdentity(call.callable)) {
    if (!parts_.numbers.ShareAll(call.args) ||
        absl::c_any_of(all, [this](PyObject* object) {
          return values_.OriginalTuple(object) != nullptr;
        })) {
      return Refuse("compares the identity of promoted scalars");
    }
    if (all.size() == 2) parts_.identity.IdentifyConstants(all[0], all[1]);
  } else if (absl::c_any_of(all, [](PyObject* object) {
               return object != nullptr && PyCFunction_Check(object) &&
                      AsksIdentity(object);
             })) {  // As map() calls it.
    return Refuse("hands a function that asks for identity on to code in C");
  }
  if (call.kind == CallKind::kPure && !has_keywords &&
      (parts_.items.ChangeContainer(call.callable, all) ||
       parts_.items.KeepsAddress(call.callable, all))) {
    return;
  }
  PyObject* items = nullptr;
  if (!has_keywords && TakesItems(call.callable, all, &items) &&
      parts_.objects.TouchNames(items)) {
    return;
  }
  step_.makes_new =
      absl::EndsWith(CallableName(call.callable), "_make_saved_tensor");
  if (!HandsOnArguments(call.callable)) return parts_.attributes.TouchArgs(all);
  for (PyObject* arg : all) {
    if (values_.Find(arg) < 0) parts_.objects.Touch(arg, kDeep);
  }
}

void BuiltinCalls::Move(const BuiltinCall& call) {
  const absl::Span<PyObject* const> all = call.all;
  step_.makes_array = IsNumpyCall(call.callable, all);
  step_.makes_iterator = all.size() == 1 && !PyIter_Check(all[0]);
  if (call.keyword_names != nullptr ||
      (CallableName(call.callable) == "builtins.iter" && all.size() == 2)) {
    return TouchAll(call);
  }
  if (all.empty() || parts_.items.ChangeContainer(call.callable, all)) return;
  parts_.objects.Touch(all[0]);
  parts_.items.Move(call.callable, all.subspan(1));
}

// all[0] is the type that owns the function, all[1] the one to make.
void BuiltinCalls::New(const BuiltinCall& call) {
  if (call.all.empty() || !PyType_Check(call.all[0])) return;
  PyTypeObject* base = SolidBase(AsType(call.all[0]));
  if (!IsPureType(base)) return RefuseCall(call.callable);
  TouchAll(call, IsMovingType(base) ? kShallow : kDeep);
}

void BuiltinCalls::UseAttribute(const BuiltinCall& call) {
  const absl::Span<PyObject* const> all = call.all;
  if (all.size() < 2) return;
  PyObject *owner = all[0], *name = all[1];
  if (call.kind == CallKind::kGetAttr) {
    return parts_.attributes.Read(owner, name);
  }
  if (all.size() == 2) {
    return parts_.attributes.Use(owner, name, PlaceUse::kRemove);
  }
  parts_.numbers.Store(owner, all[2]);
  parts_.attributes.Use(owner, name, PlaceUse::kWrite);
}

void BuiltinCalls::UseContext(const BuiltinCall& call) {
  const absl::Span<PyObject* const> all = call.all;
  if (all.empty() || !PyContextVar_CheckExact(all[0])) return;
  if (!IsOld(all[0])) return;
  // The collector doesn't track it: it is noted here, where a refusal kept what
  // led to it from being followed.
  MarkOld(all[0], PathOf(all[0]));
  guards_.AddContextVar(all[0], NoteOf(PathOf(all[0])));
  for (size_t i = 1; i < all.size(); ++i) values_.MarkExactDeep(all[i]);
  PyObject* value = nullptr;
  if (PyContextVar_Get(all[0], nullptr, &value) != 0) PyErr_Clear();
  if (value == nullptr) return;
  MarkOld(value, PathOf(all[0]));
  Py_DECREF(value);
}

void BuiltinCalls::AskAgain(const BuiltinCall& call) {
  if (call.keyword_names != nullptr) return RefuseCall(call.callable);
  static PyObject* cpu = Interned("cpu");
  // Of the CPU: part of TorchState.
  if (call.all.size() == 1 && SameValue(call.all[0], cpu)) return;
  const AskedStates::Answer* answer =
      asked_ == nullptr ? nullptr : asked_->Find(call.callable, call.all);
  if (answer == nullptr) return RefuseCall(call.callable);
  if (!answer->value) {  // It raises, as CUDA's do without a driver.
    if (!call.all.empty()) return RefuseCall(call.callable);
    return AddAnswer(*answer);
  }
  if (!IsConstant(answer->value.get())) {
    return Refuse(absl::StrCat("calls ", CallableName(call.callable),
                               ", which tells of an object of the caller's"));
  }
  AddAnswer(*answer);
}

void BuiltinCalls::AddAnswer(const AskedStates::Answer& answer) {
  guards_.AddAnswer(answer.function, answer.argument, answer.value.get(),
                    NoteOf(absl::StrCat(CallableName(answer.function), "()")));
}

}  // namespace mica
