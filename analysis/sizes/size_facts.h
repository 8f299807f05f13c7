// What a program made of sizes in Python.

#ifndef MICA_ANALYSIS_SIZES_SIZE_FACTS_H_
#define MICA_ANALYSIS_SIZES_SIZE_FACTS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "analysis/lower/tape.h"

namespace mica {

// A watched run, and the numbers that it was given (SizeFacts::given).
struct SizedTape {
  std::shared_ptr<const Tape> tape;
  std::vector<double> given;
};

// Of one watched run: the sizes that its Python code read of tensors, what it
// computed of them, and where they went. Plain data; goes with the run's tape.
struct SizeFacts {
  // For a number that follows from nothing.
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  // A number that follows from sizes, and numbers that are taken for such,
  // alone.
  struct Number {
    TapeTensorId tensor = kNoTapeTensor;  // A size of this one,
    int32_t dim = 0;                      // of this dim; or
    int32_t given = -1;                   // this one of `given`; or
    int32_t loop = -1;                    // what this loop counts
    int32_t round = 0;                    // in this round; or
    std::string op;  // this operator, mica.scalar_* or mica.int_*,
    std::vector<TapeHostOperand> operands;  // of earlier numbers, by index.
  };
  // A slice that a program takes of a tensor.
  struct Slice {
    TapeTensorId tensor = kNoTapeTensor;
    int32_t dim = kNoDim;  // From the last one on, if below 0.
    // Of numbers, by index; kUnknown for what nobody knows.
    TapeHostOperand start;
    TapeHostOperand stop;                       // Infinite for none.
    static constexpr int32_t kNoDim = 1 << 20;  // Nobody knows.
  };
  // One step passed numbers to code in C, which made these calls.
  struct Use {
    int32_t first_call = 0;
    int32_t end_call = 0;
    std::vector<int32_t> numbers;
    std::vector<int64_t> constants;  // Other whole numbers.
    std::string called;              // The last part of the code's name.
    std::vector<Slice> slices;
    std::string at;  // The user's line.
  };
  struct Range {
    int32_t begin = 0;
    int32_t end = 0;
    int32_t size() const { return end - begin; }
  };
  // A loop that goes as often as sizes say; in each round it does the same.
  struct Loop {
    // It goes through range(start, stop, step); or, where that is 0, through
    // the tensors that this call gave; or
    TapeHostOperand start, stop;
    int64_t step = 0;
    int32_t call = -1;
    // through the rounds of this earlier loop but for `less` of them: it counts
    // its own.
    int32_t like = -1;
    int32_t less = 0;
    // The call with which each round begins, and the end of the last.
    std::vector<int32_t> calls;
    // The numbers and the comparisons of each round; empty of code in C.
    std::vector<Range> numbers, comparisons;
    // From this round on, each began with what the one before it began with.
    int32_t steady = 0;
    std::string at;
  };
  // What the program used in a way that nobody follows.
  struct Exact {
    int32_t number = 0;
    std::string at;
  };
  struct Pinned {
    TapeTensorId tensor = kNoTapeTensor;
    std::string at;
  };
  // The outcome of a comparison decided which way the program went.
  struct Comparison {
    std::string op;
    TapeHostOperand a, b;
    bool outcome = false;
  };

  // Numbers that the program was given, of which sizes follow: their paths.
  std::vector<std::string> given;
  std::vector<Number> numbers;
  std::vector<Use> uses;  // In order.
  std::vector<Comparison> comparisons;
  std::vector<Loop> loops;  // In order; none within another.
  // Numbers, and tensors of which it may be all sizes, that stay as they were.
  std::vector<Exact> exact;
  std::vector<Pinned> pinned;
  // Why nobody can tell what became of the sizes; empty if that is known.
  std::string unknown;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SIZE_FACTS_H_
