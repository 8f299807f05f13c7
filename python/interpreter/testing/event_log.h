// A stream's events as lines of text, for tests.

#ifndef MICA_PYTHON_INTERPRETER_TESTING_EVENT_LOG_H_
#define MICA_PYTHON_INTERPRETER_TESTING_EVENT_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "python/interpreter/stream.h"

namespace mica {

// "3", "'text'", "list[2]", "def f", "class Box", "<Box>".
std::string Describe(PyObject* object);

// Writes each event down as a line: "read attribute value of <Box>". What a
// step computed follows an arrow, unless it led into another function.
//
// Left out is what differs between CPython's versions without meaning anything:
// constants (unless asked for), truth tests of bools, text made of a str.
class EventLog final : public StreamListener {
 public:
  struct Options {
    bool constants = false;
    // Qualified name of a function that isn't followed; and of one whose calls
    // are stepped over.
    std::string unfollowed;
    std::string stepped_over;
    // Stop after so many events; 0 for never.
    size_t max_events = 0;
    // Each test of a truth is a fork.
    bool forks = false;
  };
  explicit EventLog(Options options) : options_(std::move(options)) {}

  const std::vector<std::string>& lines() const { return lines_; }

  void BeginStep() override;
  void EndStep(PyObject** result, bool entered) override;
  int64_t NumForks() override { return forks_; }
  int64_t TakeForks(int64_t num_before) override;
  void JoinWays(int64_t token, absl::Span<PyObject* const> variables,
                absl::Span<PyObject* const> operands) override;
  bool StepsOver() override { return steps_over_; }
  bool Follows(PyObject* function) override;
  bool WantsMore() override;
  void Refuse(std::string reason, std::string mend) override;
  // What came back is told only if it is nothing, which is wrong.
  void CameBack(PyObject* result) override;
  void EnterFunction(PyObject* function) override;
  void LoadConstant(PyObject* constant) override;
  void ReadGlobal(PyObject* globals, PyObject* builtins,
                  PyObject* name) override;
  void WriteGlobal(PyObject* globals, PyObject* name) override;
  void ReadAttribute(PyObject* owner, PyObject* name) override;
  void WriteAttribute(PyObject* owner, PyObject* name) override;
  void RemoveAttribute(PyObject* owner, PyObject* name) override;
  void ReadCell(PyObject* cell, PyObject* name) override;
  void WriteCell(PyObject* cell, PyObject* name) override;
  void UseItem(PyObject* container, PyObject* key) override;
  void WriteItem(PyObject* container, PyObject* key, PyObject* value) override;
  void RemoveItem(PyObject* container, PyObject* key) override;
  void Store(PyObject* owner, PyObject* value) override;
  void NoteChange(PyObject* container) override;
  void BeginIncrement(PyObject* addend) override;
  bool EndIncrement() override { return true; }
  void SetStoresSum(bool stores) override;
  void Binary(const char* op, PyObject* a, PyObject* b) override;
  void Negate(PyObject* number) override;
  void CompareNumbers(Order order, PyObject* a, PyObject* b) override;
  void Compare(PyObject** a, PyObject** b) override;
  void TestTruth(PyObject* object) override;
  void Format(PyObject* value, int conversion, PyObject* spec) override;
  void Inspect(PyObject* object) override;
  void Touch(PyObject* object) override;
  void TouchDeep(PyObject* object) override;
  void AddYoung(PyObject* object) override;
  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names) override;
  bool IsFollowedCall(PyObject* callable) override;
  bool TakesItemsOf(PyObject* callable, PyObject* iterator) override;
  void Import(PyObject* name) override;

 private:
  void Add(std::string line) { lines_.push_back(std::move(line)); }

  Options options_;
  std::vector<std::string> lines_;
  bool computes_ = false;  // The step at hand gives a value of its own.
  bool steps_over_ = false;
  int64_t forks_ = 0;
  int64_t told_forks_ = 0;
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_TESTING_EVENT_LOG_H_
