#include "framework/schedule/schedule.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/text/literal.h"
#include "framework/text/token_stream.h"

namespace mica {
namespace {

// Far above what is of use; keeps products of two of them within 64 bits.
constexpr int64_t kMaxNumber = 1 << 24;

class Parser {
 public:
  explicit Parser(absl::string_view text) : tokens_(text) {}

  absl::StatusOr<Schedule> Parse() {
    MICA_RETURN_IF_ERROR(ParseHead());
    while (!tokens_.Take('}')) MICA_RETURN_IF_ERROR(ParseDevice());
    if (tokens_.current().kind == TokenKind::kEnd) return std::move(schedule_);
    return tokens_.Wants("the end of the text");
  }

 private:
  absl::Status ParseHead() {
    MICA_RETURN_IF_ERROR(tokens_.ExpectWord("schedule"));
    MICA_RETURN_IF_ERROR(tokens_.Expect('@'));
    if (tokens_.current().kind == TokenKind::kWord) {
      schedule_.name = std::string(tokens_.Advance().text);
    } else {
      MICA_ASSIGN_OR_RETURN(schedule_.name,
                            tokens_.ParseString("the schedule's name"));
    }
    MICA_RETURN_IF_ERROR(tokens_.Expect('('));
    MICA_RETURN_IF_ERROR(ExpectField("micro_batches"));
    MICA_ASSIGN_OR_RETURN(schedule_.num_micro_batches,
                          ParseNumber("a number of micro-batches"));
    MICA_RETURN_IF_ERROR(tokens_.Expect(','));
    MICA_RETURN_IF_ERROR(ExpectField("stages"));
    MICA_RETURN_IF_ERROR(tokens_.Expect('['));
    while (!tokens_.Take(']')) {
      if (schedule_.num_stages() > 0) MICA_RETURN_IF_ERROR(tokens_.Expect(','));
      MICA_ASSIGN_OR_RETURN(int device, ParseNumber("a stage's device"));
      schedule_.device_of_stage.push_back(device);
    }
    MICA_RETURN_IF_ERROR(tokens_.Expect(')'));
    return tokens_.Expect('{');
  }

  absl::Status ExpectField(absl::string_view name) {
    MICA_RETURN_IF_ERROR(tokens_.ExpectWord(name));
    return tokens_.Expect('=');
  }

  absl::Status ParseDevice() {
    MICA_RETURN_IF_ERROR(tokens_.ExpectWord("device"));
    MICA_RETURN_IF_ERROR(tokens_.Expect('{'));
    std::vector<ScheduledJob>& jobs = schedule_.devices.emplace_back();
    while (!tokens_.Take('}')) {
      MICA_ASSIGN_OR_RETURN(ScheduledJob job, ParseJob());
      jobs.push_back(job);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ScheduledJob> ParseJob() {
    const Token& token = tokens_.current();
    const std::optional<JobType> type = token.kind == TokenKind::kWord
                                            ? ParseJobType(token.text)
                                            : std::nullopt;
    if (!type.has_value()) {
      return tokens_.Wants(
          absl::StrCat("a job type (",
                       absl::StrJoin(kJobTypes, ", ",
                                     [](std::string* out, JobType known) {
                                       absl::StrAppend(out, ToString(known));
                                     }),
                       ")"));
    }
    tokens_.Advance();
    ScheduledJob job = {.type = *type,
                        .micro_batch = ScheduledJob::kAllMicroBatches};
    MICA_RETURN_IF_ERROR(tokens_.Expect('('));
    MICA_ASSIGN_OR_RETURN(job.stage, ParseNumber("a stage"));
    if (!IsForAllMicroBatches(*type)) {
      MICA_RETURN_IF_ERROR(tokens_.Expect(','));
      MICA_ASSIGN_OR_RETURN(job.micro_batch, ParseNumber("a micro-batch"));
    }
    MICA_RETURN_IF_ERROR(tokens_.Expect(')'));
    return job;
  }

  absl::StatusOr<int> ParseNumber(absl::string_view what) {
    const std::optional<int64_t> number =
        tokens_.current().kind == TokenKind::kNumber
            ? ParseInt(tokens_.current().text)
            : std::nullopt;
    if (!number.has_value() || *number < 0 || *number > kMaxNumber) {
      return tokens_.Wants(what);
    }
    tokens_.Advance();
    return static_cast<int>(*number);
  }

  TokenStream tokens_;
  Schedule schedule_;
};

}  // namespace

absl::string_view ToString(JobType type) {
  switch (type) {
    case JobType::kForward:
      return "forward";
    case JobType::kBackward:
      return "backward";
    case JobType::kBackwardInput:
      return "backward_input";
    case JobType::kBackwardWeight:
      return "backward_weight";
    case JobType::kReduce:
      return "reduce";
    case JobType::kUpdate:
      return "update";
  }
  return "?";
}

std::optional<JobType> ParseJobType(absl::string_view text) {
  for (JobType type : kJobTypes) {
    if (text == ToString(type)) return type;
  }
  return std::nullopt;
}

std::string ScheduledJob::ToString() const {
  const absl::string_view name = mica::ToString(type);
  if (IsForAllMicroBatches(type)) return absl::StrCat(name, "(", stage, ")");
  return absl::StrCat(name, "(", stage, ",", micro_batch, ")");
}

std::string ToText(const Schedule& schedule) {
  std::string out = "schedule @";
  if (IsWord(schedule.name)) {
    out.append(schedule.name);
  } else {
    AppendQuoted(schedule.name, &out);
  }
  absl::StrAppend(&out, "(micro_batches=", schedule.num_micro_batches,
                  ", stages=[", absl::StrJoin(schedule.device_of_stage, ","),
                  "]) {\n");
  for (const std::vector<ScheduledJob>& jobs : schedule.devices) {
    absl::StrAppend(&out, "  device {\n");
    for (const ScheduledJob& job : jobs) {
      absl::StrAppend(&out, "    ", job.ToString(), "\n");
    }
    absl::StrAppend(&out, "  }\n");
  }
  absl::StrAppend(&out, "}\n");
  return out;
}

absl::StatusOr<Schedule> ParseSchedule(absl::string_view text) {
  return Parser(text).Parse();
}

}  // namespace mica
