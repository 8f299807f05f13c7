#include "python/capture/watch/refusals.h"

#include <utility>

#include "python/interpreter/frame_hook.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void Refusals::Refuse(std::string reason, std::string mend) {
  if (current_) return;
  current_ = {.reason = std::move(reason),
              .mend = std::move(mend),
              .at = CurrentUserLine(),
              .transient = IsSettingUp(caller_),
              .places = {SitesBelow(caller_)}};
  if (on_refused_) on_refused_();
}

void Refusals::AddChange() {
  constexpr size_t kMaxChanges = 32;
  if (!looks_on_ || changes_.size() >= kMaxChanges) return;
  changes_.push_back(SitesBelow(caller_));
}

bool Refusals::LookOn() {
  constexpr size_t kMaxRefusals = 32;
  if (!looks_on_ || past_.size() >= kMaxRefusals) return false;
  past_.push_back(std::move(current_));
  current_ = Refusal();
  return true;
}

std::vector<FrameSites> Refusals::Places() const {
  std::vector<FrameSites> places;
  for (const Refusal& refusal : past_) {
    places.insert(places.end(), refusal.places.begin(), refusal.places.end());
  }
  places.insert(places.end(), current_.places.begin(), current_.places.end());
  return places;
}

}  // namespace mica
