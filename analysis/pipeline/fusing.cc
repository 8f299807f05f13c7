#include "analysis/pipeline/fusing.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace mica {
namespace {

// The passes that merge ops; reductions are a part of the last one.
struct FusionKind {
  absl::string_view name, pass;
};
constexpr FusionKind kKinds[] = {{"convolutions", "fuse-convolutions"},
                                 {"recurrent", "fuse-recurrent"},
                                 {"linear", "fuse-linear"},
                                 {"elementwise", "merge-elementwise"},
                                 {"reductions", ""}};

absl::Status UnknownWord(absl::string_view word) {
  std::vector<std::string> known;
  for (const FusionKind& kind : kKinds) {
    known.push_back(absl::StrCat("-", kind.name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("MICA_FUSE: \"", word, "\" is none of off, regions=NUMBER, ",
                   absl::StrJoin(known, ", ")));
}

}  // namespace

absl::StatusOr<Fusing> FusingOf(absl::string_view setting,
                                const PassPipeline& passes) {
  Fusing fusing{.passes = passes, .regions = {}};
  const auto leave_out = [&](const FusionKind& kind) {
    if (kind.pass.empty()) {
      fusing.regions.reduces = false;
    } else {
      fusing.passes = fusing.passes.Without(kind.pass);
    }
  };
  for (absl::string_view word :
       absl::StrSplit(setting, ',', absl::SkipEmpty())) {
    if (word == "off") {
      for (const FusionKind& kind : kKinds) leave_out(kind);
      continue;
    }
    absl::string_view rest = word;
    if (absl::ConsumePrefix(&rest, "regions=")) {
      if (!absl::SimpleAtoi(rest, &fusing.regions.most) ||
          fusing.regions.most < 0) {
        return UnknownWord(word);
      }
      continue;
    }
    bool is_known = false;
    if (absl::ConsumePrefix(&rest, "-")) {
      for (const FusionKind& kind : kKinds) {
        if (kind.name != rest) continue;
        leave_out(kind);
        is_known = true;
      }
    }
    if (!is_known) return UnknownWord(word);
  }
  return fusing;
}

}  // namespace mica
