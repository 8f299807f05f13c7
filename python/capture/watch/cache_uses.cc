#include "python/capture/watch/cache_uses.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/interpreter/frame_hook.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// What cache_info() says of hits and misses; false without an error if it says
// nothing.
bool ReadInfo(PyObject* wrapper, int64_t* hits, int64_t* misses) {
  const PyErrorKeeper keeper;
  const PyRef info =
      PyRef::Steal(PyObject_CallMethod(wrapper, "cache_info", nullptr));
  if (info && PyTuple_Check(info.get()) && PyTuple_GET_SIZE(info.get()) >= 2) {
    *hits = PyLong_AsLongLong(PyTuple_GET_ITEM(info.get(), 0));
    *misses = PyLong_AsLongLong(PyTuple_GET_ITEM(info.get(), 1));
  }
  const bool is_known = info && PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return is_known;
}

}  // namespace

bool CacheUses::IsLibraryCache(PyObject* wrapper) {
  static PyObject* names = PySys_GetObject("stdlib_module_names");
  PyRef module = PyRef::Steal(PyObject_GetAttrString(wrapper, "__module__"));
  if (!module) PyErr_Clear();
  const std::string full = PyText(module.get());
  const std::string top = full.substr(0, full.find('.'));
  if (top == "__main__") return false;  // Which is a module of Python's, too.
  const PyRef word = PyRef::Steal(PyUnicode_FromString(top.c_str()));
  return top == "torch" || top == "numpy" || top == "mica" ||
         (word && names != nullptr &&
          PySequence_Contains(names, word.get()) == 1);
}

void CacheUses::Use(PyObject* wrapper, int num_calls) {
  if (IsLibraryCache(wrapper)) return;
  for (CacheUse& use : uses_) {
    if (use.wrapper.get() != wrapper) continue;
    use.num_calls += num_calls;
    return;
  }
  CacheUse use{.wrapper = PyRef::Share(wrapper),
               .num_calls = num_calls,
               .at = CurrentUserLine(),
               .places = SitesBelow(caller())};
  if (!ReadInfo(wrapper, &use.hits, &use.misses)) return RefuseCall(wrapper);
  uses_.push_back(std::move(use));
}

bool CacheUses::Check() {
  for (const CacheUse& use : uses_) {
    int64_t hits = 0, misses = 0;
    if (ReadInfo(use.wrapper.get(), &hits, &misses) && misses == use.misses &&
        hits == use.hits + use.num_calls) {
      continue;
    }
    Refuse(absl::StrCat("calls ", PathOf(use.wrapper.get()),
                        ", whose cache doesn't hold the result yet"),
           "call it once before, or outside the compiled function");
    refusal().transient = true;
    refusal().at = use.at;
    refusal().places = {use.places};
    return false;
  }
  return true;
}

}  // namespace mica
