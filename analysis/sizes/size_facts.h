// What a program made of sizes in Python.

#ifndef MICA_ANALYSIS_SIZES_SIZE_FACTS_H_
#define MICA_ANALYSIS_SIZES_SIZE_FACTS_H_

#include <cstdint>
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
  // A number that follows from sizes, and numbers that are taken for such,
  // alone.
  struct Number {
    TapeTensorId tensor = kNoTapeTensor;  // A size of this one,
    int32_t dim = 0;                      // of this dim; or
    int32_t given = -1;                   // this one of `given`; or
    std::string op;  // this operator, mica.scalar_* or mica.int_*,
    std::vector<TapeHostOperand> operands;  // of earlier numbers, by index.
  };
  // A slice that a program takes of a tensor.
  struct Slice {
    TapeTensorId tensor = kNoTapeTensor;
    int32_t dim = kNoDim;    // From the last one on, if below 0.
    bool has_start = false;  // Other than 0.
    TapeHostOperand stop;    // Of numbers, by index. Infinite for none.
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
  // Numbers, and tensors of which it may be all sizes, that stay as they were.
  std::vector<Exact> exact;
  std::vector<Pinned> pinned;
  // Why nobody can tell what became of the sizes; empty if that is known.
  std::string unknown;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SIZE_FACTS_H_
