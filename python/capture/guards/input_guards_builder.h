// How a call's arguments are described: the tree of InputGuards is made.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_INPUT_GUARDS_BUILDER_H_
#define MICA_PYTHON_CAPTURE_GUARDS_INPUT_GUARDS_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/py_ref.h"

namespace mica {

class InputGuards::Builder {
 public:
  // `slots` is what those hold.
  Builder(InputGuards* guards, const ApartTypes& apart,
          const absl::flat_hash_set<std::string>& promoted,
          absl::Span<PyObject* const> slots)
      : guards_(*guards), apart_(apart), promoted_(promoted), slots_(slots) {}

  int Add(PyObject* object, std::string path, int depth);
  // Has what an argument is made of taken apart, if that is plain.
  void TakeApart(PyObject* argument);
  const Refusal& refusal() const { return refusal_; }
  // If it is a promoted scalar, or a tuple of such, a new object of its
  // value, to be put in its place; else null. Numbers are followed by identity,
  // and a number's object may stand in other places too.
  PyObject* Renew(int id);

 private:
  int NewNode(Kind kind, PyObject* object, std::string path);
  int AddConstant(PyObject* object, std::string path, int depth);
  int AddTensor(PyObject* object, std::string path);
  int AddArray(PyObject* object, PyRef tensor, std::string path);
  int AddTensorNode(Kind kind, PyObject* object, PyObject* tensor,
                    std::string path);
  // How an object that is no constant and no tensor is described.
  Kind KindOf(PyObject* object) const;
  void AddItems(int id, PyObject* sequence, const std::string& path, int depth);
  void AddDictItems(int id, PyObject* dict, const std::string& path, int depth);
  void AddAttributes(int id, PyObject* object, const std::string& path,
                     int depth);
  // Makes a tuple anew of these items, some of them renewed.
  void RenewTuple(int id, PyObject* tuple, std::vector<PyObject*> items);
  // A deque of few items in a slot, or one of which a call brings another.
  bool IsStructuralDeque(PyObject* object) const;
  // Lists, and objects of their subclasses as far as they are taken apart.
  bool IsStructuralList(PyObject* object) const;
  bool IsStructural(PyObject* object) const;
  // Whether a number in this tuple varies.
  bool HoldsPromoted(PyObject* object, const std::string& path) const;
  int Refuse(std::string reason) {
    if (!refusal_) refusal_.reason = std::move(reason);
    return 0;
  }
  int RefuseArgument(absl::string_view path, absl::string_view what) {
    return Refuse(absl::StrCat("argument ", path, what));
  }

  // Nobody would see that the object has got another dict by the next call.
  int RefuseAttributes(absl::string_view path) {
    return RefuseArgument(path,
                          " and the dict of its attributes are both arguments");
  }

  InputGuards& guards_;
  absl::flat_hash_set<PyObject*> instance_dicts_;  // Of those taken apart.
  absl::flat_hash_set<PyObject*> plain_;           // By TakeApart().
  const ApartTypes& apart_;
  const absl::flat_hash_set<std::string>& promoted_;
  absl::Span<PyObject* const> slots_;
  Refusal refusal_;
  bool is_in_fixed_ = false;       // In a tuple that can't be made anew.
  bool is_in_structural_ = false;  // In an object that is taken apart.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_INPUT_GUARDS_BUILDER_H_
