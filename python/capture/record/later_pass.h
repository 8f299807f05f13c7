// How a Record gets the backward pass of its results.

#ifndef MICA_PYTHON_CAPTURE_RECORD_LATER_PASS_H_
#define MICA_PYTHON_CAPTURE_RECORD_LATER_PASS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/lower/split_tape.h"
#include "python/capture/record/record.h"
#include "python/capture/watch/observation.h"

namespace mica {

// The backward pass that may follow a run, while the Record is made: which
// results autograd tracks, what it would do with them, and how that is done
// again. All that it is given outlives it.
class LaterPass {
 public:
  LaterPass(Record& record, Observation& run, const CaptureOptions& options)
      : record_(record), run_(run), options_(options) {}

  // Goes back from those of the results that autograd tracks, for who asks for
  // their gradients later. Tensors that results are views of become results
  // too. False if that can't be done again.
  bool Trace(std::vector<PyObject*>* results, Refusal* refusal);
  // What it computes, each once.
  const std::vector<PyObject*>& gradients() const { return gradients_; }
  // Of the whole tape: the inputs and the results that are the run's own, and
  // where the pass's parts begin and end.
  int NumArgs(const Tape& tape) const;
  int NumResults(const Tape& tape) const;
  std::vector<LaterPart> Outline(const Tape& tape) const;
  // Makes the pass a graph of its own, and part of the record. `tape` and
  // `kinds`, of its results, are left with the first part, and what the pass
  // wants of that. False if it can't be. Ends this.
  bool AddTo(const Record::BoundCall& bound, Tape* tape,
             std::vector<TensorMeta>* kinds, Refusal* refusal);

 private:
  // A result that autograd knows as a view of another tensor:
  struct View {
    int result = -1;
    PyRef base;            // Of the program's arguments and state, or
    int root = -1;         // this result.
    uint8_t creation = 0;  // As ViewRelation has it.
    bool is_tracked = false;
    std::string node;     // If so, what torch calls what made it,
    uint32_t output = 0;  // and which of its outputs it is.
  };

  static constexpr char kShares[] =
      "shares its memory with another result, an argument or the state in a "
      "way that autograd doesn't know";

  // Which entry of the part the gradient is; -1 if it is none.
  static int EntryOf(const BackwardTrace::Part& part, PyObject* gradient);
  // What the part's graph computes, each once.
  static std::vector<PyObject*> GradientsOf(const BackwardTrace::Part& part);

  static bool Refuse(absl::string_view why, Refusal* refusal);
  // Which tensors were there before.
  void FindKnown();
  // Which of the results autograd tracks, and how.
  bool FindTracked(std::vector<PyObject*>* results);
  // The same of one; false if it shares its memory unknown to autograd.
  bool AddResult(int index, absl::Span<PyObject* const> results);
  // Sets by_storage_: one look at each tensor, not at each pair of them.
  void SortByStorage(absl::Span<PyObject* const> results);
  // The tensors that were there before or that the run returns, and have the
  // memory of this one.
  std::vector<PyObject*> SharersOf(PyObject* tensor) const;
  // How autograd sees it, `sharers` given, where that is a view or tracked.
  bool AddView(int index, PyObject* result,
               absl::Span<PyObject* const> sharers);
  PyObject* ViewOfSame(PyObject* base,
                       absl::Span<PyObject* const> sharers) const;
  // Adds to `results` what views among them show that isn't known yet.
  void AddBases(std::vector<PyObject*>* results);
  // Has autograd's use of the live results watched: by eager's own passes.
  void WatchUse(absl::Span<PyObject* const> live) const;
  void FindGradients();
  // TraceBackward(), and what functions in Python read on the way. False, with
  // a reason, if that can't be done again.
  bool GoBack(absl::Span<PyObject* const> live, std::string* why);

  // The views among the results, as later runs make them; none if the tape
  // doesn't have them so, or has the memory of a live result elsewhere too.
  std::optional<std::vector<ResultViews::View>> PlaceViews(
      const Tape& tape, const Record::BoundCall& bound,
      const std::vector<TensorMeta>& kinds) const;
  // Where what a view shows is, as later runs find it; kNoTapeTensor if they
  // don't.
  TapeTensorId PlaceBase(const Tape& tape, const View& view,
                         const Record::BoundCall& bound,
                         ResultViews::View* placed) const;
  absl::StatusOr<SplitTape> Split(const Tape& tape) const;
  // The parts of the pass, of what Split() made of it.
  std::optional<std::vector<BackwardPass::Part>> MakeParts(
      SplitTape* split, const Record::BoundCall& bound, Refusal* refusal);
  absl::StatusOr<BackwardPass::Part> MakePart(
      int index, SplitTape::Later made, const Record::BoundCall& bound,
      const GraphOptions& options) const;
  BackwardPass::Output PlaceOutput(const BackwardTrace::Part& part,
                                   const BackwardTrace::Output& output,
                                   const std::vector<PyObject*>& gradients,
                                   const Record::BoundCall& bound) const;

  Record& record_;
  Observation& run_;
  const CaptureOptions& options_;
  std::vector<int> live_;           // The results that autograd tracks.
  std::vector<std::string> nodes_;  // What torch calls theirs.
  std::vector<View> views_;
  std::vector<ResultViews::Writes> writes_;
  BackwardTrace trace_;
  std::vector<PyObject*> known_;  // Arguments and state.
  // By StorageIdOf(): results, then arguments, then state.
  absl::flat_hash_map<const void*, std::vector<PyObject*>> by_storage_;
  std::vector<PyObject*> externals_;  // Of these, as TraceBackward() has them.
  std::vector<PyObject*> gradients_;
  std::shared_ptr<BackwardPass::Reads> reads_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_LATER_PASS_H_
