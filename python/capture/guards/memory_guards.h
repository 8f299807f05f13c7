// Guards over which tensors share memory.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_MEMORY_GUARDS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_MEMORY_GUARDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "python/capture/values/guard_note.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Inputs and states that shared memory when recorded have to lie in one memory
// again, at the same distance; and what a Program writes has to be disjoint
// from all that it wasn't part of. If the program counts from the start of a
// storage (as_strided, storage_offset()), each has to lie where it lay in its
// own; what it views as complex numbers, at an even place as it did.
// Single-thread.
class MemoryGuards {
 public:
  MemoryGuards() = default;
  // `reads_offsets`: Python asked where a tensor lies.
  MemoryGuards(const Tape& tape, bool reads_offsets);

  // What the Program writes has to be disjoint from this too: a numpy array
  // that Python read.
  void AddArray(std::string name, const char* low, const char* high);

  // Tensors in the order of Tape::inputs and Tape::states.
  bool Check(absl::Span<PyObject* const> inputs,
             absl::Span<PyObject* const> states, Miss* miss);

  // One readable expression each.
  void AppendText(std::vector<std::string>* lines) const;

 private:
  struct External {
    std::string name;
    int32_t storage = 0;
    bool is_mutated = false;
    int64_t offset = 0;  // In its storage, in elements.
    // It has to lie there but for multiples of this; 0: just there.
    int64_t offset_step = 1;
    int64_t low = 0;  // Bytes that it spans, from its first element.
    int64_t high = 0;
  };
  // `b` lies `distance` bytes behind `a`.
  struct Pair {
    int a = 0;
    int b = 0;
    int64_t distance = 0;
  };

  struct Array {
    std::string name;
    const char* low = nullptr;
    const char* high = nullptr;
  };

  static std::string OffsetText(const External& external);
  bool CheckDisjoint(const std::vector<char*>& data, Miss* miss);
  bool CheckArrays(const std::vector<char*>& data, Miss* miss) const;

  std::vector<External> externals_;
  std::vector<Pair> pairs_;
  std::vector<Array> arrays_;
  bool has_mutation_ = false;
  bool has_offsets_ = false;  // All are guarded.
  bool has_offsets_in_steps_ = false;
  std::vector<char*> last_good_;  // Addresses that were found disjoint.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_MEMORY_GUARDS_H_
