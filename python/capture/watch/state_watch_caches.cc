// What functools.lru_cache keeps.

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/state_watch.h"
#include "python/interpreter/frame_hook.h"

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

// Of a library's own, in which nobody looks.
bool IsLibraryCache(PyObject* wrapper) {
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

}  // namespace

bool StateWatch::IsLruCache(PyObject* object) {
  return absl::string_view(Py_TYPE(object)->tp_name) ==
         "functools._lru_cache_wrapper";
}

void StateWatch::CallCached(PyObject* wrapper, absl::Span<PyObject* const> args,
                            PyObject* keyword_names) {
  // It answers from what it computed before, and may compute now.
  PyObject* cache = LruCacheDict(wrapper);
  if (cache == nullptr) return RefuseCall(wrapper);
  const std::string path = PathOf(wrapper);
  MarkOld(cache, absl::StrCat("the cache of ", path));
  TouchObject(cache, kShallowDepth);
  for (PyObject* result : LruCacheResults(cache)) {
    MarkOld(result, absl::StrCat("a result of ", path));
  }
  if (refusal_ || IsLibraryCache(wrapper)) return;
  UseCache(wrapper, /*num_calls=*/1);
  for (PyObject* arg : args) {
    if (IsConstant(arg)) continue;
    if (IsOld(arg) && !IsInput(arg) && !IsTensor(arg)) continue;
    return Refuse(absl::StrCat("looks up a ", TypeName(Py_TYPE(arg)), " in ",
                               path, ", a cache"),
                  "look it up outside the compiled function");
  }
  host_calls_.push_back({.callable = PyRef::Share(wrapper),
                         .args = {},
                         .keyword_names = PyRef::Share(keyword_names),
                         .note = NoteOf(path),
                         .sink = {.kind = Sink::Kind::kCache},
                         .is_last = user_call_.has_value()});
  // The cache keeps what eager would have passed.
  std::vector<PyRef>& plain = host_calls_.back().args;
  for (PyObject* arg : args) plain.push_back(values_.PlainOf(arg));
  in_place_of_call_ = FixedCall(wrapper, plain, keyword_names);
}

void StateWatch::UseCache(PyObject* wrapper, int num_calls) {
  if (IsLibraryCache(wrapper)) return;
  for (CacheUse& use : cache_uses_) {
    if (use.wrapper.get() != wrapper) continue;
    use.num_calls += num_calls;
    return;
  }
  CacheUse use{.wrapper = PyRef::Share(wrapper),
               .num_calls = num_calls,
               .at = CurrentUserLine(),
               .places = SitesBelow(caller_)};
  if (!ReadInfo(wrapper, &use.hits, &use.misses)) return RefuseCall(wrapper);
  cache_uses_.push_back(std::move(use));
}

bool StateWatch::CheckCaches() {
  for (const CacheUse& use : cache_uses_) {
    int64_t hits = 0, misses = 0;
    if (ReadInfo(use.wrapper.get(), &hits, &misses) && misses == use.misses &&
        hits == use.hits + use.num_calls) {
      continue;
    }
    Refuse(absl::StrCat("calls ", PathOf(use.wrapper.get()),
                        ", whose cache doesn't hold the result yet"),
           "call it once before, or outside the compiled function");
    refusal_.transient = true;
    refusal_.at = use.at;
    refusal_.places = {use.places};
    return false;
  }
  return true;
}

}  // namespace mica
