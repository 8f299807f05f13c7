// Views that begin at Python's numbers, and their gradients.

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/torch_side/recorder/recorder_impl.h"

namespace mica {
namespace {

// Whether autograd's gradients of these calls can be followed: selects alone,
// of tensors of real numbers.
bool AreSelects(const Tape& tape, size_t first_call,
                absl::Span<const PassedPlace> places) {
  for (size_t i = first_call; i < tape.calls.size(); ++i) {
    const TapeCall& call = tape.calls[i];
    if (!call.mutated_args.empty()) return false;
    if (call.op != "aten.select.int") continue;
    const auto* base = std::get_if<TapeTensorRef>(&call.args[0]);
    if (base == nullptr ||
        absl::StartsWith(tape.tensors[base->id].dtype, "c")) {
      return false;
    }
  }
  return absl::c_none_of(places, [](const PassedPlace& place) {
    return place.is_slice && place.start.id >= 0;
  });
}

}  // namespace

bool Recorder::PlacePlaces(const Mark& mark,
                           absl::Span<const PassedPlace> places,
                           bool is_tracked, std::vector<int64_t>* sizes) {
  Tape& tape = impl_->tape;
  if (is_tracked && !AreSelects(tape, mark.calls, places)) return false;
  if (!mica::PlacePlaces(places, mark.calls, tape, sizes)) return false;
  for (const PassedPlace& place : places) {
    if (place.start.id < 0) continue;
    auto& numbers =
        is_tracked ? impl_->tracked_places : impl_->untracked_places;
    numbers.push_back(place.start.id);
  }
  for (size_t i = mark.calls; is_tracked && i < tape.calls.size(); ++i) {
    if (tape.calls[i].op != "aten.select.int") continue;
    const auto* number = std::get_if<TapeHostRef>(&tape.calls[i].args[2]);
    if (number != nullptr) impl_->placed_nodes[impl_->nodes[i]] = number->id;
  }
  return true;
}

void Recorder::FixPlaces(bool only_tracked) { impl_->FixPlaces(only_tracked); }

void Recorder::Impl::FixPlaces(bool only_tracked) {
  placed_nodes.clear();
  for (std::vector<int32_t>* numbers : {&tracked_places, &untracked_places}) {
    if (only_tracked && numbers == &untracked_places) continue;
    for (const int32_t number : std::exchange(*numbers, {})) {
      callbacks.on_fixed_number(number);
    }
  }
}

void Recorder::Impl::PlaceGradient(TapeCall& call) {
  const auto node = torch::autograd::get_current_node();
  const bool is_gradient = node != nullptr || later_part >= 0;
  // Where a view was written autograd knows by numbers where it lay.
  if (is_gradient && (absl::StrContains(call.op, "as_strided") ||
                      (node != nullptr && node->name() == "CopySlices"))) {
    return FixPlaces();
  }
  if (call.op != "aten.select_backward") return;
  if (node == nullptr) return FixPlaces(/*only_tracked=*/true);
  const auto placed = placed_nodes.find(node->sequence_nr());
  if (placed == placed_nodes.end()) return;
  // What is tracked has gradients of its own.
  if (at::GradMode::is_enabled()) return FixPlaces(/*only_tracked=*/true);
  call.args[3] = TapeHostRef{placed->second};
}

}  // namespace mica
