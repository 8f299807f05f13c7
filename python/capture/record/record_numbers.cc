// Which numbers of a run vary, and what it did to gradients.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/record/record_maker.h"
#include "python/capture/values/constants.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {

bool RecordMaker::FindNumbers() {
  std::vector<NumberSource> varying, exact;
  run_.watch.loops().Finish();
  std::vector<TapeHostValue> values =
      run_.watch.values().Finish(&varying, &exact);
  record_.host_inputs_ = HostInputs(std::move(varying));
  record_.size_inputs_ = HostInputs(run_.watch.values().SizeSources());
  const HostInputs& inputs = record_.host_inputs_;
  // All of them are told at once: an optimizer counts steps for each of its
  // parameters.
  std::string changed;
  for (const auto& sources : {absl::MakeConstSpan(exact), inputs.sources(),
                              record_.size_inputs_.sources()}) {
    for (const NumberSource& source : sources) {
      if (source.node >= 0 || source.draw >= 0) continue;
      if (SameValue(source.recorded.get(), source.FindItem())) {
        continue;
      }
      attempt_.slots.push_back({source.dict, source.key, source.note});
      if (changed.empty()) changed = source.note.path;
    }
  }
  if (!changed.empty()) {
    return Refuse({.reason = absl::StrCat("changes state: ", changed),
                   .mend = "keep such changes out of the compiled function",
                   .transient = true});
  }
  for (const NumberSource& source : exact) {
    if (source.node >= 0) {
      record_.inputs_.GuardNumber(source.node);
    } else if (source.draw < 0) {
      run_.watch.guards().AddItem(source.dict.get(), source.key.get(),
                                  source.note);
    }
  }
  if (!FindDraws(exact, values)) return false;
  attempt_.exact = std::move(exact);
  const auto comparisons = run_.watch.values().Comparisons();
  record_.outcomes_ = HostOutcomes(values, comparisons, inputs);
  std::vector<int32_t> results = record_.result_.numbers();
  const std::vector<int32_t>& first = record_.first_arguments_.numbers();
  results.insert(results.end(), first.begin(), first.end());
  run_.recorder.SetHostValues(std::move(values), std::move(results),
                              comparisons);
  return true;
}

bool RecordMaker::FindDraws(absl::Span<const NumberSource> exact,
                            absl::Span<const TapeHostValue> values) {
  const auto sources = record_.host_inputs_.sources();
  std::vector<Draw> draws = run_.watch.draws().draws();
  for (size_t i = 0; i < sources.size(); ++i) {
    const int draw = sources[i].draw;
    if (draw >= 0) draws[draw].input = static_cast<int>(i);
  }
  for (const NumberSource& source : exact) {
    if (source.draw >= 0) draws[source.draw].is_exact = true;
  }
  Refusal why;
  for (const Draw& draw : draws) {
    // A clock never tells the same, nor does a float come again.
    const bool comes_again =
        draw.kind != Draw::Kind::kClock &&
        !(draw.kind == Draw::Kind::kLook && draw.is_number()) &&
        (draw.array.has_value() || !PyFloat_CheckExact(draw.recorded.get()));
    if (!draw.is_exact || comes_again) continue;
    if (!why) {
      why = {.reason = absl::StrCat("uses a number of ", draw.note.path,
                                    " for more than arithmetic and "
                                    "comparisons"),
             .mend = "draw with torch, or keep the number in a tensor",
             .at = draw.note.at};
    }
    why.places.push_back(draw.places);
  }
  if (why) return Refuse(std::move(why));
  HostExpressions expressions;
  for (Draw& draw : draws) {
    for (Draw::Number& number : draw.numbers) {
      number.node =
          expressions.Add({.id = number.id}, values, record_.host_inputs_);
      if (number.node >= 0) continue;
      return Refuse({.reason = absl::StrCat("passes ", draw.note.path,
                                            " a number that needs a run"),
                     .at = draw.note.at});
    }
  }
  record_.draws_ = Draws(std::move(draws), std::move(expressions));
  return true;
}

bool RecordMaker::FindGradients() {
  GradientWatch& watch = run_.watch.tensors().gradients();
  if (watch.goes_outside()) {
    return Refuse({.reason = "goes back through a tensor that came in with an "
                             "autograd graph of its own",
                   .mend = "detach it, or compile what made it too"});
  }
  for (const GradientWatch::Seen& seen : watch.seen()) {
    if (!seen.is_touched && !watch.all_touched()) continue;
    PyObject* tensor = seen.tensor.get();
    Gradients::Leaf leaf{.tensor = Kept(tensor),
                         .name = run_.watch.TensorName(tensor),
                         .had_grad = static_cast<bool>(seen.before),
                         .before = seen.before};
    leaf.has_hooks = run_.watch.tensors().HasNotedHooks(tensor);
    if (leaf.has_hooks ? HasAccumulatorHooks(tensor)
                       : HasGradientHooks(tensor)) {
      return Refuse(
          {.reason = absl::StrCat("has a hook on the gradient of ", leaf.name),
           .mend = "change gradients after backward(), in the step"});
    }
    leaf.input = record_.inputs_.FindTensor(tensor);
    if (leaf.input >= 0) {
      leaf.tensor = Kept();
      leaf.name = record_.inputs_.tensors()[leaf.input].path;
    }
    record_.Keep(run_.watch.guards(), leaf.tensor.get());
    if (seen.before) leaf.meta = TensorMeta::Of(seen.before.get());
    if (RequiresGrad(tensor) != seen.required_grad) {
      leaf.requires_grad = !seen.required_grad;
    }
    PyRef after = GradOf(tensor);
    leaf.is_kept = after.get() == seen.before.get();
    if (!leaf.is_kept && after && !AddGradient(std::move(after), &leaf)) {
      return false;
    }
    if (seen.has_new_data) {
      leaf.data = static_cast<int>(tensors_.size());
      pins_.push_back(DataTensorOf(tensor));
      tensors_.push_back(pins_.back().get());
    }
    record_.gradients_.Add(std::move(leaf));
  }
  return true;
}

bool RecordMaker::AddGradient(PyRef gradient, Gradients::Leaf* leaf) {
  if (RequiresGrad(gradient.get()) || !IsPlainTensor(gradient.get())) {
    return Refuse({.reason = absl::StrCat("leaves ", leaf->name,
                                          " with a gradient that requires "
                                          "grad itself")});
  }
  if (HasOwnAttributes(gradient.get())) {
    return Refuse({.reason = absl::StrCat("leaves ", leaf->name,
                                          " with a gradient that has "
                                          "attributes of its own")});
  }
  const auto known =
      std::find(tensors_.begin(), tensors_.end(), gradient.get());
  leaf->result = static_cast<int>(known - tensors_.begin());
  if (known == tensors_.end()) tensors_.push_back(gradient.get());
  pins_.push_back(std::move(gradient));
  return true;
}

}  // namespace mica
