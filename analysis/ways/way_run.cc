#include "analysis/ways/way_run.h"

#include <complex>
#include <cstring>
#include <variant>

#include "absl/strings/match.h"

namespace mica {

bool IsSameOutcome(const TapeValue& a, const TapeValue& b) {
  const auto are_same = [&](auto kind) {
    const auto* one = std::get_if<decltype(kind)>(&a);
    const auto* other = std::get_if<decltype(kind)>(&b);
    return one != nullptr && other != nullptr &&
           std::memcmp(one, other, sizeof *one) == 0;
  };
  if (std::holds_alternative<double>(a)) return are_same(double{});
  if (std::holds_alternative<std::complex<double>>(a)) {
    return are_same(std::complex<double>{});
  }
  return a == b;
}

bool IsComparison(const TapeCall& call) {
  return absl::StartsWith(call.op, "mica.scalar_");
}

int32_t WayRun::NumCalls() const {
  auto count = static_cast<int32_t>(tape->calls.size());
  while (count > 0 && IsComparison(tape->calls[count - 1])) --count;
  return count;
}

int32_t WayRun::NumForks(int32_t event) const {
  int32_t count = 0;
  for (int32_t i = 0; i < event; ++i) {
    count += events[i].kind == WayEvent::Kind::kFork ? 1 : 0;
  }
  return count;
}

int32_t WayRun::CallsAtFork(int32_t fork) const {
  for (const WayEvent& event : events) {
    if (event.kind == WayEvent::Kind::kFork && fork-- == 0) return event.calls;
  }
  return NumCalls();
}

}  // namespace mica
