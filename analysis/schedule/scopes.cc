#include "analysis/schedule/scopes.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace mica {
namespace {

bool IsIn(const Op& op, absl::string_view scope) {
  if (op.source.scope == nullptr) return false;
  absl::string_view rest = *op.source.scope;
  return absl::ConsumePrefix(&rest, scope) &&
         (rest.empty() || rest.front() == '.');
}

// What the modules of a Program's forward ops are called, for an error.
std::string ListScopes(const Program& program,
                       const std::vector<bool>& is_forward) {
  constexpr size_t kMost = 40;
  std::vector<std::string> scopes;
  absl::flat_hash_set<std::string> known;
  for (size_t i = 0; i < is_forward.size(); ++i) {
    const auto& scope = program.ops()[i].source.scope;
    if (!is_forward[i] || scope == nullptr) continue;
    for (size_t end = 0; end < scope->size();) {
      end = std::min(scope->find('.', end + 1), scope->size());
      const std::string outer = scope->substr(0, end);
      if (known.insert(outer).second) scopes.push_back(outer);
    }
  }
  if (scopes.empty()) return "the Program tells of no module";
  const size_t num_left = scopes.size() - std::min(scopes.size(), kMost);
  scopes.resize(scopes.size() - num_left);
  return absl::StrCat(
      "there are ", absl::StrJoin(scopes, ", "),
      num_left == 0 ? "" : absl::StrCat(" and ", num_left, " more"));
}

}  // namespace

absl::StatusOr<std::vector<OpId>> FindStarts(
    const Program& program, const std::vector<bool>& is_forward,
    const std::vector<std::string>& scopes) {
  std::vector<OpId> starts;
  for (size_t stage = 0; stage < scopes.size(); ++stage) {
    const std::string what =
        absl::StrCat("stage ", stage + 1, ": module \"", scopes[stage], "\"");
    size_t start = 0;
    while (start < is_forward.size() &&
           !(is_forward[start] && IsIn(program.ops()[start], scopes[stage]))) {
      ++start;
    }
    if (start == is_forward.size()) {
      return absl::NotFoundError(absl::StrCat(what, " runs no forward op; ",
                                              ListScopes(program, is_forward)));
    }
    if (!starts.empty() && static_cast<OpId>(start) <= starts.back()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " doesn't run after \"", scopes[stage - 1], "\""));
    }
    starts.push_back(static_cast<OpId>(start));
  }
  return starts;
}

}  // namespace mica
