#include "python/capture/effects/draws.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/call_with_names.h"

namespace mica {
namespace {

Miss MissOf(const Draw& draw, PyObject* got) {
  return {
      .kind = "draw",
      .note = {.path = absl::StrCat("what ", draw.note.path, " gave"),
               .at = draw.note.at},
      .expected = draw.array.has_value() ? draw.array->ToString()
                  : draw.is_exact
                      ? DescribeValue(draw.recorded.get())
                      : absl::StrCat("a number, ",
                                     TypeName(Py_TYPE(draw.recorded.get()))),
      .got = DescribeValue(got)};
}

// Puts a number where the Program has it.
bool IsAsRecorded(const Draw& draw, PyObject* value,
                  absl::Span<double> numbers) {
  if (draw.is_exact) return SameValue(draw.recorded.get(), value);
  if (Py_TYPE(value) != Py_TYPE(draw.recorded.get())) return false;
  const std::optional<double> number = ScalarOf(value);
  if (number.has_value()) numbers[draw.input] = *number;
  return number.has_value();
}

}  // namespace

bool Draw::is_number() const {
  return recorded && NumberOf(recorded.get()).has_value();
}

Draws::Draws(std::vector<Draw> draws, HostExpressions expressions)
    : draws_(std::move(draws)), expressions_(std::move(expressions)) {
  for (Draw& draw : draws_) {
    draw.places.clear();
    draw.tensor = PyRef();
    const auto is_same = [&](const PyRef& known) {
      return known.get() == draw.generator.get();
    };
    if (draw.generator &&
        std::none_of(generators_.begin(), generators_.end(), is_same)) {
      generators_.push_back(draw.generator);
    }
  }
}

PyRef Draws::Call(const Draw& draw, absl::Span<const double> numbers,
                  absl::Span<const TapeHostValue> values,
                  std::vector<double>* computed) const {
  std::vector<PyRef> args;
  for (const Draw::Number& number : draw.numbers) {
    if (!expressions_.Compute(numbers, values, number.node + 1, computed)) {
      PyErr_SetString(PyExc_ArithmeticError, "an argument");
      return PyRef();
    }
    if (args.empty()) args = draw.args;
    args[number.arg] = MakeNumber(number.is_int ? &PyLong_Type : &PyFloat_Type,
                                  (*computed)[number.node]);
    if (!args[number.arg]) return PyRef();
  }
  return CallWithNames(draw.callable.get(),
                       draw.numbers.empty() ? draw.args : args,
                       draw.keyword_names.get());
}

Draws::Outcome Draws::Make(absl::Span<double> numbers,
                           absl::Span<const TapeHostValue> values, Made* made,
                           Miss* miss) const {
  std::vector<double> computed;
  for (const PyRef& generator : generators_) {
    if (!made->states.Add(generator.get())) return Outcome::kFailed;
  }
  for (const Draw& draw : draws_) {
    const PyRef value = Call(draw, numbers, values, &computed);
    if (!value) {
      const bool is_failure = PyErr_ExceptionMatches(PyExc_Exception) != 0;
      if (is_failure) PyErr_Clear();
      const PyErrorKeeper keeper;  // What is undone runs Python code.
      made->states.EndDraws();
      made->Undo();
      return is_failure ? Outcome::kFailed : Outcome::kRaised;
    }
    if (draw.kind == Draw::Kind::kAsk || draw.kind == Draw::Kind::kClock) {
      made->readings.push_back(value);
    }
    if (draw.array.has_value()) {
      PyRef tensor = TensorOfArray(value.get());
      if (tensor && draw.array->Matches(tensor.get())) {
        made->arrays.push_back(value);
        made->tensors.push_back(std::move(tensor));
        continue;
      }
    } else if (IsAsRecorded(draw, value.get(), numbers)) {
      continue;
    }
    if (miss != nullptr) *miss = MissOf(draw, value.get());
    made->states.EndDraws();
    made->Undo();
    return Outcome::kMiss;
  }
  made->states.EndDraws();
  return Outcome::kMade;
}

std::vector<std::string> Draws::ToText() const {
  std::vector<std::string> lines;
  for (const Draw& draw : draws_) {
    const char* word =
        draw.kind == Draw::Kind::kGenerator ? "draws "
        : draw.kind == Draw::Kind::kLook || draw.kind == Draw::Kind::kTable
            ? "looks at "
            : "asks ";
    lines.push_back(
        absl::StrCat(word, draw.note.path,
                     draw.note.at.line == 0
                         ? ""
                         : absl::StrCat(" (", draw.note.at.ToString(), ")")));
  }
  return lines;
}

int Draws::Traverse(visitproc visit, void* arg) const {
  for (const Draw& draw : draws_) {
    Py_VISIT(draw.callable.get());
    for (const PyRef& object : draw.args) Py_VISIT(object.get());
    Py_VISIT(draw.generator.get());
  }
  for (const PyRef& generator : generators_) Py_VISIT(generator.get());
  return 0;
}

}  // namespace mica
