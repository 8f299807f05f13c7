// What interpreter.h and frame_hook.h tell of frames.

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/frame_hook.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/known.h"

namespace mica {
namespace {

bool IsBelow(const char* file, size_t size, const std::string& dir) {
  return size > dir.size() && std::memcmp(file, dir.data(), dir.size()) == 0 &&
         file[dir.size()] == '/';
}

bool IsUserFile(PyObject* name) {
  Py_ssize_t size = 0;
  const char* file = PyUnicode_AsUTF8AndSize(name, &size);
  if (file == nullptr) {
    PyErr_Clear();
    return false;
  }
  const auto length = static_cast<size_t>(size);
  if (std::strncmp(file, "<frozen", 7) == 0) return false;
  return !IsBelow(file, length, known().places.torch_dir) &&
         !IsBelow(file, length, known().places.mica_dir);
}

// The module that a method runs for, or null. Borrowed.
PyObject* ModuleOf(const Frame* frame) {
  if (CodeOf(frame)->co_argcount == 0) return nullptr;
  PyObject* self = frame->localsplus[0];
  if (self != nullptr && PyCell_Check(self)) self = PyCell_GET(self);
  return self != nullptr && IsTorchModule(self) ? self : nullptr;
}

}  // namespace

bool CanSplit(PyCodeObject* code) {
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if ((code->co_flags & kGenerators) != 0 ||
      (code->co_flags & CO_NEWLOCALS) == 0) {
    return false;
  }
  const std::string file = PyText(code->co_filename);
  if (IsUserFile(code->co_filename)) {
    constexpr absl::string_view kPackages = "/site-packages/";
    const size_t at = file.find(kPackages.data());
    if (at == std::string::npos) {
      return !IsBelow(file.data(), file.size(), known().library_dir);
    }
    // What works on arrays has no tensors to record.
    return file.compare(at + kPackages.size(), 6, "numpy/") != 0;
  }
  return IsBelow(file.data(), file.size(), known().places.torch_dir) &&
         PyText(code->co_name) == "forward";
}

bool IsSettingUp(const PyFrameObject* outer) {
  const GilHolder gil;
  const std::string typing = known().library_dir + "/typing.py";
  const Frame* end = outer == nullptr ? nullptr : outer->f_frame;
  const Frame* frame = RunningFrame();
  for (; frame != nullptr && frame != end; frame = CallerOf(frame)) {
    const std::string file = PyText(CodeOf(frame)->co_filename);
    if (file == "<frozen importlib._bootstrap>" || file == typing) return true;
  }
  return false;
}

bool IsModuleCall(const PyCodeObject* code) {
  return code != nullptr && code == known().places.module_call;
}

bool IsTorchModule(PyObject* object) {
  return PyType_IsSubtype(Py_TYPE(object), known().places.module_type) != 0;
}

FrameSites SitesBelow(const PyFrameObject* outer) {
  const GilHolder gil;
  FrameSites sites;
  const Frame* end = outer == nullptr ? nullptr : outer->f_frame;
  const Frame* frame = RunningFrame();
  for (; frame != nullptr && frame != end; frame = CallerOf(frame)) {
    const int unit = UnitOf(frame);
    if (unit < 0 || !CanSplit(CodeOf(frame))) continue;
    sites.push_back({.code = PyRef::Share(AsObject(CodeOf(frame))),
                     .module = PyRef::Share(ModuleOf(frame)),
                     .unit = unit});
  }
  std::reverse(sites.begin(), sites.end());
  return sites;
}

UserLine CurrentUserLine() {
  const GilHolder gil;
  const Frame* frame = RunningFrame();
  for (; frame != nullptr; frame = CallerOf(frame)) {
    PyCodeObject* code = CodeOf(frame);
    if (code == nullptr || !IsUserFile(code->co_filename)) continue;
    const int offset = UnitOf(frame) * static_cast<int>(sizeof(_Py_CODEUNIT));
    return {PyText(code->co_filename), PyCode_Addr2Line(code, offset)};
  }
  return {};
}

namespace {

// True if the table of handlers of `code` has an entry for a unit of it. Each
// entry is four numbers: where it begins, how many units it covers, where the
// handler is, and the depth of the stack there. A number has its highest six
// bits first, and bit 6 says that more follow.
bool IsHandled(PyCodeObject* code, int unit) {
  PyObject* table = code->co_exceptiontable;
  if (table == nullptr || !PyBytes_Check(table)) return false;
  const auto* next =
      reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(table));
  const auto* end = next + PyBytes_GET_SIZE(table);
  const auto read = [&] {
    int number = 0;
    for (bool has_more = true; has_more && next < end; ++next) {
      number = number << 6 | (*next & 63);
      has_more = (*next & 64) != 0;
    }
    return number;
  };
  while (next < end) {
    const int begin = read(), count = read();
    read();
    read();
    if (unit >= begin && unit < begin + count) return true;
  }
  return false;
}

}  // namespace

std::optional<FrameLine> FrameAbove(int64_t level, const PyFrameObject* outer) {
  PyFrameObject* frame = PyEval_GetFrame();
  for (; frame != nullptr && frame != outer; --level) {
    const Frame* inner = frame->f_frame;
    if (level == 0) {
      return FrameLine{.globals = inner->f_globals,
                       .filename = CodeOf(inner)->co_filename,
                       .function = CodeOf(inner)->co_name,
                       .line = PyFrame_GetLineNumber(frame)};
    }
    const PyRef above =
        PyRef::Steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
    // What holds it is that it runs.
    frame = reinterpret_cast<PyFrameObject*>(above.get());
  }
  return std::nullopt;
}

void ForEachCalledModule(absl::FunctionRef<bool(PyObject*)> visit) {
  if (known().places.module_call == nullptr) return;
  const GilHolder gil;
  const Frame* frame = RunningFrame();
  for (; frame != nullptr; frame = CallerOf(frame)) {
    if (CodeOf(frame) != known().places.module_call) continue;
    PyObject* module = frame->localsplus[0];
    if (module != nullptr && PyCell_Check(module)) module = PyCell_GET(module);
    if (module != nullptr && !visit(module)) return;
  }
}

bool HasHandlerBelow(const PyFrameObject* outer) {
  const Frame* end = outer == nullptr ? nullptr : outer->f_frame;
  for (const Frame* frame = RunningFrame(); frame != nullptr && frame != end;
       frame = CallerOf(frame)) {
    if (IsHandled(CodeOf(frame), UnitOf(frame))) return true;
  }
  return false;
}

bool IsForeignTracerActive() {
  return PyThreadState_Get()->c_tracefunc != nullptr;
}

}  // namespace mica
