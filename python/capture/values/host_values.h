// Python's numbers that may differ from run to run: where each came from and
// where it went.

#ifndef MICA_PYTHON_CAPTURE_VALUES_HOST_VALUES_H_
#define MICA_PYTHON_CAPTURE_VALUES_HOST_VALUES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "analysis/sizes/size_facts.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/values/drawn_arrays.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/loose_ref.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/places.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Where a promoted scalar is found.
struct NumberSource {
  LooseRef dict;  // An item,
  PyRef key;      // of this key; or, if null,
  int node = -1;  // an argument; or
  int draw = -1;  // what the record's draw of this number gives.
  GuardNote note;
  PyRef recorded;

  // What the item holds now, or null. Borrowed.
  PyObject* FindItem() const;
};

// Numbers that were seen to vary between calls, and that captures treat as
// inputs from then on. Dicts are known by their addresses alone: another one
// that comes to the address of one that died has a number followed for nothing.
class PromotedScalars {
 public:
  // An item of a dict: an attribute, a global, an optimizer's learning rate.
  void AddItem(PyObject* dict, PyObject* key);
  bool HasItem(PyObject* dict, PyObject* key) const {
    return items_.contains({dict, key});
  }
  // An argument, by its path.
  void AddInput(std::string path);
  const absl::flat_hash_set<std::string>& inputs() const { return inputs_; }

  // Notes of ints that were followed that they had to be the recorded ones all
  // the same. Those that vary on are taken for sizes: with each value of one
  // goes a run of its own, and what follows of them may be sizes of tensors.
  void NoteExact(absl::Span<const NumberSource> sources);
  bool IsSizeItem(PyObject* dict, PyObject* key) const {
    return size_items_.contains({dict, key});
  }
  bool IsSizeInput(const std::string& path) const {
    return size_inputs_.contains(path);
  }
  const absl::flat_hash_set<std::string>& size_inputs() const {
    return size_inputs_;
  }
  bool has_sizes() const {
    return !size_items_.empty() || !size_inputs_.empty();
  }
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  using Items = absl::flat_hash_set<std::pair<PyObject*, PyObject*>>;

  Items items_, exact_items_, size_items_;
  std::vector<PyRef> keys_;  // Their addresses stay taken.
  absl::flat_hash_set<std::string> inputs_, exact_inputs_, size_inputs_;
};

// What a text is made of, at a hit again: function(args…), the last of them by
// keyword. Of constants, numbers that are followed and other such texts.
struct TextRecipe {
  PyRef function;
  std::vector<PyRef> args;
  PyRef keyword_names;  // May be null.
  int depth = 1;        // One more than that of texts that it is made of.
};

// Follows floats and ints by identity while a program runs. A number is *known*
// if it came from a promoted scalar, a draw or a tensor, directly or by
// arithmetic that a Program can repeat; it is then an object of its own, small
// ints too. Of a comparison the outcome is kept, not the number. A known number
// that the program uses in any other way (prints it, takes it for an index) is
// *exact*: a record is valid only while what it came from has the recorded
// value; what `int()` and its like made of a float, while that lies between the
// same whole numbers. Single-thread.
class HostValues {
 public:
  // Whether results are to be eager's bits: what numpy computes by functions of
  // its own isn't followed then.
  void SetExact(bool is_exact) { is_exact_ = is_exact; }
  bool is_exact() const { return is_exact_; }

  // Index in the list that Finish() gives; -1 for a number not known.
  using Id = int32_t;
  Id Find(PyObject* object) const {
    if (ids_.empty() || !IsScalar(object)) return -1;
    const auto it = ids_.find(object);
    return it == ids_.end() ? -1 : it->second;
  }
  // The same of a text.
  Id FindText(PyObject* object) const {
    if (!has_texts_ || !PyUnicode_CheckExact(object)) return -1;
    const auto it = ids_.find(object);
    return it == ids_.end() ? -1 : it->second;
  }
  // The same of either.
  Id FindAny(PyObject* object) const {
    const Id id = Find(object);
    return id >= 0 ? id : FindText(object);
  }
  bool empty() const { return ids_.empty() && unread_.empty(); }

  // A numpy array in a tensor's memory that nobody has read: SetOnArrayUse().
  void AddArray(PyObject* array, PyObject* tensor);
  // The tensor, read or not; null if it is no such array. Borrowed.
  PyObject* TensorOf(PyObject* array) const {
    const auto it = arrays_.find(array);
    return it == arrays_.end() ? nullptr : it->second.get();
  }
  void ReadArray(PyObject* tensor) {
    if (!drawn_.Use(tensor)) on_array_use_(tensor);
  }
  bool has_arrays() const { return !arrays_.empty(); }
  DrawnArrays& drawn() { return drawn_; }
  void SetOnArrayUse(std::function<void(PyObject* tensor)> on_array_use) {
    on_array_use_ = std::move(on_array_use);
  }

  // `original` is what `number` stands for, and was in its place.
  void AddItem(PyObject* number, PyObject* original, PyObject* dict,
               PyObject* key, GuardNote note);
  bool HasItem(PyObject* dict, PyObject* key) const {
    return items_.contains({dict, key});
  }
  void AddInput(PyObject* number, PyObject* original, int node,
                std::string path);
  // Has such a number taken for a size: see AddSize().
  void TakeForSize(PyObject* number);
  // The items of AddItem().
  absl::Span<const StatePlace> places() const { return places_; }
  // A tuple that holds such numbers, and what it stands for.
  void AddTuple(PyObject* own, PyObject* original) { tuples_[own] = original; }
  // What a tuple stands for; null if it stands for none. Borrowed.
  PyObject* OriginalTuple(PyObject* object) const {
    const auto it = tuples_.find(object);
    return it == tuples_.end() ? nullptr : it->second;
  }
  // What the `draw`-th draw of the run gave.
  Id AddDraw(PyObject* number, int draw, GuardNote note);
  // What call `call` of the tape gave as its output `output`.
  Id AddRead(PyObject* number, int32_t call, int32_t output);
  // A size of this tensor of the tape, or, without a dim, its number of
  // elements. What follows from sizes alone is no input of a Program: it is
  // `value` at each run of one, and another in a Program for other sizes.
  Id AddSize(PyObject* number, TapeTensorId tensor, int dim);
  // What round `round` of loop `loop` of SizeFacts counts, which is a size.
  Id AddRound(PyObject* number, int loop, int round);
  // An int that differs from round to round of a loop, and may be computed of
  // itself: what follows of it is a size, too.
  Id AddCounter(PyObject* number);
  // Which round a number counts, but for what is added to that; -1 for another
  // one.
  int RoundOf(Id id) const { return nodes_[MovedFrom(id)].round; }
  bool IsSize(Id id) const { return nodes_[id].is_size; }
  // It has to be what it was.
  bool IsExact(Id id) const { return nodes_[id].is_exact; }
  int32_t num_sizes() const { return num_sizes_; }
  struct Comparison {
    std::string op;
    TapeHostOperand a, b;
    bool outcome = false;
    UserLine at;
    int32_t number = -1;  // In order of all that were added.
  };
  int32_t num_size_comparisons() const {
    return static_cast<int32_t>(size_comparisons_.size());
  }
  const Comparison& size_comparison(int32_t index) const {
    return size_comparisons_[index];
  }
  // From now to TakeSizeUses(), sizes that are marked as exact are only noted:
  // the step at hand may pass them to an operator.
  void BeginSizeUses() { notes_size_uses_ = has_sizes_; }
  std::vector<Id> TakeSizeUses();
  // One is used in a way that nobody follows.
  void PinSize(Id id);
  // A text was made of sizes: whoever looks at it uses these.
  void AddSizeText(PyObject* text, absl::Span<const Id> sizes);
  // From now to TakeTextUses(), numbers and texts that are marked as exact are
  // only noted: the step at hand may make text of them.
  void BeginTextUses() { notes_text_uses_ = true; }
  std::vector<Id> TakeTextUses();
  // A text, in an object of its own, that was made of these numbers and texts.
  Id AddText(PyObject* text, TextRecipe recipe, absl::Span<const Id> uses);
  // Whether sizes are among what a text was made of.
  bool IsTextOfSizes(Id id) const { return nodes_[id].is_text_of_sizes; }
  // Null for a number.
  const TextRecipe* recipe(Id id) const { return nodes_[id].recipe.get(); }
  // Somebody looks at what may be a text, or an array.
  void UseText(PyObject* object) {
    if (has_texts_ || !size_texts_.empty() || !unread_.empty()) {
      UseTextOf(object);
    }
  }
  // All that is known of sizes but where they went, ids in place of indices.
  SizeFacts FindSizeFacts() const;
  // Where the numbers come from that are taken for sizes: SizeFacts::given.
  std::vector<NumberSource> SizeSources() const;
  // The index in there of a size's id.
  int32_t IndexOfSize(Id id) const { return nodes_[id].size_index; }
  // `result`, an object of its own, is `op` of numbers, one of them known; true
  // if it is what `op` gives for them, bit for bit.
  bool AddOp(PyObject* result, const HostOp& op,
             absl::Span<PyObject* const> operands);

  // Whether nothing but the stack of the program holds a known number.
  bool IsTemporary(PyObject* number) const {
    constexpr Py_ssize_t kPinAndStack = 2;
    return Py_REFCNT(number) <= kPinAndStack;
  }
  // The program would have met `original` in place of a known number.
  void StandFor(PyObject* number, PyObject* original) {
    nodes_[Find(number)].original = PlainOf(original);
  }

  // The outcome of comparing two numbers, one of them known, decides which way
  // the program goes; `op` is "mica.scalar_lt", "_le" or "_eq". False if they
  // can't be compared as floats.
  bool AddComparison(const char* op, PyObject* a, PyObject* b, UserLine at);
  // Demands that the number's size be that of a float32's, as torch does where
  // it fills tensors with it. Of one that isn't, the value is demanded.
  void DemandFloat32(Id id);
  // Demands that a number is from `low` to `high`.
  void DemandRange(TapeHostOperand number, double low, double high);
  // Whether two numbers are one, but for what is added to it.
  bool MoveTogether(Id a, Id b) const { return MovedFrom(a) == MovedFrom(b); }
  // Demands that two numbers are as far from each other as they are.
  void DemandDistance(TapeHostOperand a, TapeHostOperand b);
  int32_t num_comparisons() const {
    return static_cast<int32_t>(comparisons_.size());
  }
  // Those whose outcome may vary.
  std::vector<Comparison> Comparisons() const;

  // An object's address, as id() gave it, which no run has again. It may go
  // where it stands for the object: among the keys of what the run makes. Any
  // other use is known from uses_address().
  void AddAddress(PyObject* number) {
    if (addresses_.insert(number).second) pins_.push_back(PyRef::Share(number));
  }
  bool IsAddress(PyObject* object) const {
    return !addresses_.empty() && addresses_.contains(object);
  }
  bool uses_address() const { return uses_address_; }

  // Marks ints that the program was given, and what was computed of such alone,
  // as exact where comparisons from number `since` on look at them.
  void MarkGivenInts(int32_t since);
  // The last comparison leads to a round of a loop, as `before` did: where an
  // int that was given is compared with one that each round has another of, it
  // says how often the loop goes, and is exact.
  void MarkCountedInts(std::optional<Comparison>& before);
  // A use that a Program can't repeat.
  void MarkExact(PyObject* object) {
    uses_address_ |= IsAddress(object);
    if (const Id id = FindAny(object); id >= 0) MarkExactId(id);
  }
  void MarkExactId(Id id);
  // The calls of the tape of which it read ints that became exact, in order.
  absl::Span<const int32_t> exact_reads() const { return exact_reads_; }
  // The same for all that code in C finds in `object` without asking Python
  // code: what containers, iterators, exceptions and the like hold, at any
  // depth. An instance of a Python class is looked into as far as its base in C
  // goes.
  void MarkExactDeep(PyObject* object);
  // The same for all that Python code finds, too: attributes of instances.
  void MarkExactReachable(PyObject* object);
  bool HasKnown(PyObject* object) const;

  // True if the number may vary, as some source of it isn't exact; or if it is
  // known before a run computes anything, as neither reads nor sizes made it.
  bool IsDynamic(Id id) const;
  bool NeedsNoRun(Id id) const;
  double value(Id id) const { return nodes_[id].value; }
  bool is_int(Id id) const { return nodes_[id].is_int; }
  // The argument that it is, by node; -1 for another number.
  int input_node(Id id) const { return nodes_[id].source.node; }
  // Known ones of which it is one, the very object; none for another number.
  std::vector<Id> PickedFrom(Id id) const;
  // Where it came from, if it wasn't computed.
  const NumberSource& source(Id id) const { return nodes_[id].source; }
  // The object that the program would have met; null if it is the number's own.
  PyObject* original(Id id) const { return nodes_[id].original.get(); }

  // What the program would have met in the place of `object`: itself, unless
  // that is a number of ours.
  PyRef PlainOf(PyObject* object) const;
  // visit(number, shared) for each object of ours that stands for another one.
  void ForEachOwn(absl::FunctionRef<void(PyObject*, PyObject*)> visit) const;

  // An item that the run followed and that holds something else now, though
  // `is_set` doesn't know of that: code in C set it. Null for none.
  const NumberSource* FindReplaced(
      absl::FunctionRef<bool(const NumberSource&)> is_set) const;

  // Numbers as a Tape wants them; the sources become `inputs`, in order.
  // Sources that are exact after all are listed in `exact` instead.
  std::vector<TapeHostValue> Finish(std::vector<NumberSource>* inputs,
                                    std::vector<NumberSource>* exact);

 private:
  struct Node {
    TapeHostValue tape;
    NumberSource source;
    PyRef original;
    double value = 0;
    bool is_int = false;
    bool is_exact = false;
    bool has_sizes = false;                    // It was computed of some too.
    bool is_of_round = false;                  // The same of a loop's count.
    bool is_text_of_sizes = false;             // The same of a text.
    bool is_size = false;                      // It follows from sizes alone:
    int32_t size_index = -1;                   // the number of this index.
    TapeTensorId tensor = kNoTapeTensor;       // A size of this one,
    int dim = 0;                               // of this dim; or
    int32_t given = -1;                        // this one of given_sizes_; or
    int loop = -1;                             // what this loop counts
    int round = -1;                            // in this round.
    UserLine pinned_at;                        // By PinSize().
    std::shared_ptr<const TextRecipe> recipe;  // Of a text.
  };
  bool IsGivenInt(TapeHostOperand operand) const;
  // Whether sizes are among the operands, and nothing else that is known.
  bool AreSizes(absl::Span<const TapeHostOperand> operands) const;
  // Whether sizes that may vary are among them, or among what made them.
  bool HasSizes(absl::Span<const TapeHostOperand> operands) const;
  // Pins the sizes of which a number was computed, at any depth.
  void PinSizesOf(Id id);
  // The sizes that may vary of which it was computed, itself perhaps.
  std::vector<Id> SizesOf(Id id) const;
  // Whether what it gives may vary, but for sizes.
  bool Varies(const Comparison& comparison) const;
  // A comparison that sizes decide, as all else in it is exact: a condition on
  // these, or a reason for them to stay.
  void AddCondition(const Comparison& comparison, SizeFacts& facts) const;
  void UseTextOf(PyObject* object);
  Id Add(PyObject* number, Node node);
  // What a number is but for constants that are added to it.
  Id MovedFrom(Id id) const;
  // Has a comparison of numbers come out true at each run.
  void Demand(const char* op, TapeHostOperand a, TapeHostOperand b);
  // A whole part that is exact: demands that the float lies where it lay.
  void AddBounds(const Node& node);

  std::vector<Node> nodes_;
  std::vector<Comparison> comparisons_;
  std::vector<Comparison> size_comparisons_;
  bool has_sizes_ = false;
  bool is_exact_ = false;
  int32_t num_sizes_ = 0;
  std::vector<Id> given_sizes_;
  bool notes_size_uses_ = false;
  std::vector<Id> size_uses_;
  absl::flat_hash_map<PyObject*, std::vector<Id>> size_texts_;
  std::vector<int32_t> exact_reads_;
  bool has_texts_ = false;
  bool notes_text_uses_ = false;
  std::vector<Id> text_uses_;
  std::vector<StatePlace> places_;
  absl::flat_hash_set<Id> float32_;  // By DemandFloat32().
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> items_;
  std::vector<PyRef> pins_;                           // Addresses stay taken.
  absl::flat_hash_map<PyObject*, PyObject*> tuples_;  // Originals, by own.
  absl::flat_hash_map<PyObject*, Id> ids_;
  absl::flat_hash_set<PyObject*> addresses_;
  bool uses_address_ = false;
  absl::flat_hash_map<PyObject*, PyRef> arrays_;  // Tensors, by array.
  absl::flat_hash_set<PyObject*> unread_;         // Arrays.
  std::function<void(PyObject*)> on_array_use_;
  DrawnArrays drawn_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_HOST_VALUES_H_
