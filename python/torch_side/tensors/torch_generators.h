// Torch's random generators, as tapes and Programs know them: by number, with
// operators that read, set and seed their states.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_GENERATORS_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_GENERATORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace at {
struct Generator;
}

namespace mica {

// The number of torch's own generator of the CPU.
inline constexpr int64_t kDefaultGenerator = 0;

// A number for a generator, the same each time; it lives as long as the
// process, as Programs may draw from it. None if it isn't of the CPU.
std::optional<int64_t> NumberOfGenerator(const at::Generator& generator);
// Of a number that NumberOfGenerator() gave. One that a program makes at each
// run is another on each thread.
at::Generator GeneratorOf(int64_t number);

// The states of generators when this was made.
class TorchGeneratorStates {
 public:
  explicit TorchGeneratorStates(absl::Span<const int64_t> numbers);
  void Restore() const;

 private:
  std::vector<std::pair<int64_t, std::string>> states_;
};

// True for a torch.Generator, and for that class.
bool IsTorchGenerator(PyObject* object);
bool IsTorchGeneratorType(PyTypeObject* type);

// Whether this torch knows devices other than the CPU, which
// torch.manual_seed() seeds as well.
bool MayHaveDevices();

// Makes the operators known to torch: mica_random::state, set_state, seed,
// initial_seed and make. Once; throws what torch throws.
void InstallGeneratorOps();

// What does the same as a function of torch's by calling such an operator,
// which a Recorder sees: of a method of torch.Generator's ("get_state"), of
// torch.manual_seed ("torch.manual_seed") or of the class ("Generator"). `self`
// is what the method is bound to, null if that is its first argument. Null for
// others. A new reference.
PyRef GeneratorCall(absl::string_view name, PyObject* self);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_GENERATORS_H_
