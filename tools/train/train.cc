#include "tools/train/train.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/status.h"
#include "framework/saved/saved_program.h"
#include "framework/tensor/safetensors.h"
#include "framework/text/text.h"
#include "framework/trace/recorder.h"
#include "nlohmann/json.hpp"
#include "ops/all.h"
#include "tools/mix.h"
#include "tools/train/checkpoint.h"
#include "tools/train/dataset.h"
#include "tools/train/log.h"
#include "tools/train/runner.h"

namespace mica {
namespace {

bool IsOneFloat(const TensorType& type) {
  return (type.dtype == DType::kF32 || type.dtype == DType::kF64) &&
         type.num_elements() == 1;
}

double ReadFloat(const Tensor& tensor) {
  return tensor.type().dtype == DType::kF64 ? *tensor.view().as<double>()
                                            : *tensor.view().as<float>();
}

void WriteFloat(double value, const Tensor& tensor) {
  if (tensor.type().dtype == DType::kF64) {
    *tensor.view().as<double>() = value;
  } else {
    *tensor.view().as<float>() = static_cast<float>(value);
  }
}

template <typename T>
int64_t LargestOf(const T* row, int64_t count) {
  return std::max_element(row, row + count) - row;
}

// The class that a row of an evaluation's output stands for.
int64_t ClassOf(const Tensor& output, int64_t row) {
  const TensorType& type = output.type();
  if (type.dtype == DType::kI64) return output.view().as<int64_t>()[row];
  const int64_t classes = type.dims[1];
  return type.dtype == DType::kF64
             ? LargestOf(output.view().as<double>() + row * classes, classes)
             : LargestOf(output.view().as<float>() + row * classes, classes);
}

// One run: what it reads and writes, and how far it is.
class Trainer {
 public:
  explicit Trainer(const TrainOptions& options) : options_(options) {}
  // After an error: what there is isn't worth a file.
  ~Trainer() {
    if (is_traced_) StopTrace();
  }

  absl::Status Load();
  absl::StatusOr<TrainSummary> Run(const volatile std::sig_atomic_t& stop);

 private:
  absl::Status LoadStep();
  absl::Status FindRateInputs();
  absl::Status FindRate(const std::string& signature);
  absl::Status LoadEvaluation();
  absl::StatusOr<std::vector<Tensor>> ShareVariables(const SavedProgram& saved);
  absl::Status Resume();

  absl::Status TrainEpoch(const volatile std::sig_atomic_t& stop);
  absl::Status TakeStep(absl::Span<const int64_t> rows);
  absl::Status FinishEpoch();
  absl::StatusOr<double> Evaluate();
  absl::Status Save();
  absl::Status WriteResults();
  absl::Status WriteTrace();
  void ShowProgress();

  int64_t num_steps() const { return options_.epochs * steps_per_epoch_; }
  double rate() const { return RateAt(rate_, progress_.step, num_steps()); }

  const TrainOptions& options_;
  std::optional<Dataset> data_;
  std::optional<Dataset> eval_data_;
  std::unique_ptr<Runner> step_;
  std::unique_ptr<Runner> eval_;
  std::string eval_signature_;
  std::vector<std::string> rate_names_;
  std::vector<int> rate_inputs_;
  RateOptions rate_;
  int loss_output_ = -1;
  int class_output_ = -1;
  const Tensor* labels_ = nullptr;
  int64_t steps_per_epoch_ = 0;
  RunIdentity identity_;
  TrainLog log_;
  Progress progress_;
  TrainSummary summary_;
  absl::Duration training_time_;
  int64_t steps_of_this_run_ = 0;
  bool is_traced_ = false;
  absl::Time last_shown_ = absl::InfinitePast();
};

absl::Status Trainer::Load() {
  if (!options_.trace_path.empty()) {
    MICA_RETURN_IF_ERROR(StartTrace());
    is_traced_ = true;
  }
  MICA_ASSIGN_OR_RETURN(data_, Dataset::Read("data", options_.data));
  MICA_RETURN_IF_ERROR(LoadStep());
  if (!options_.eval_folder.empty()) MICA_RETURN_IF_ERROR(LoadEvaluation());
  const uint64_t text =
      HashBytes(ToText(step_->program(), {.print_sources = false}));
  identity_ = {
      {"program", absl::StrFormat("%016x", text)},
      {"data", absl::StrFormat("%016x", data_->Fingerprint())},
      {"seed", absl::StrCat(options_.seed)},
      {"rate", rate_inputs_.empty() ? "none" : rate_.ToString(num_steps())}};
  return Resume();
}

absl::Status Trainer::LoadStep() {
  MICA_ASSIGN_OR_RETURN(SavedProgram saved,
                        ReadSavedProgram(options_.step_folder, AllOps()));
  MICA_ASSIGN_OR_RETURN(step_,
                        Runner::Create(options_.step_folder, saved.program,
                                       std::move(saved.variables),
                                       static_cast<int>(options_.threads)));
  MICA_RETURN_IF_ERROR(FindRateInputs());
  MICA_RETURN_IF_ERROR(FindRate(saved.signature));
  const Program& program = step_->program();
  MICA_RETURN_IF_ERROR(step_->ReadFrom(*data_, rate_names_));
  if (options_.batch_size != 0 && options_.batch_size != step_->batch_size()) {
    return Invalid("--batch_size=", options_.batch_size, ": ",
                   options_.step_folder, " was exported for ",
                   step_->batch_size());
  }
  loss_output_ = step_->FindOutput(IsOneFloat);
  if (loss_output_ < 0) {
    return Invalid(options_.step_folder,
                   ": a training step returns its loss, one float; this "
                   "Program returns none");
  }
  if (program.updates().empty()) {
    return Invalid(options_.step_folder,
                   ": the Program updates no variable: it is no training step");
  }
  steps_per_epoch_ = data_->num_rows() / step_->batch_size();
  if (steps_per_epoch_ == 0) {
    return Invalid("--data: ", data_->num_rows(),
                   " rows don't fill a batch of ", step_->batch_size());
  }
  return absl::OkStatus();
}

absl::Status Trainer::FindRateInputs() {
  const std::vector<std::string> asked =
      absl::StrSplit(options_.rate_input, ',', absl::SkipEmpty());
  const Program& program = step_->program();
  std::vector<std::string> numbers, rates;
  for (const ValueId id : program.inputs()) {
    const Value& value = program.value(id);
    if (value.type->rank() != 0 || !IsOneFloat(*value.type)) continue;
    numbers.push_back(value.name);
    if (absl::EndsWith(value.name, "lr") ||
        absl::EndsWith(value.name, "rate")) {
      rates.push_back(value.name);
    }
  }
  for (const std::string& name : asked) {
    if (std::find(numbers.begin(), numbers.end(), name) != numbers.end()) {
      continue;
    }
    return Invalid(options_.step_folder, ": no input ", name,
                   " takes a rate: wants a float without dims; there is ",
                   numbers.empty() ? "none" : absl::StrJoin(numbers, ", "));
  }
  rate_names_ = !asked.empty() ? asked : numbers.size() == 1 ? numbers : rates;
  if (rate_names_.empty() && options_.has_rate) {
    return Invalid(options_.step_folder,
                   ": no input takes a rate: it is part of the Program unless "
                   "two calls before the export had different ones");
  }
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    const std::string& name = program.value(program.inputs()[i]).name;
    if (std::find(rate_names_.begin(), rate_names_.end(), name) !=
        rate_names_.end()) {
      rate_inputs_.push_back(static_cast<int>(i));
    }
  }
  return absl::OkStatus();
}

// The rate that the step was exported with, unless the user asks for another.
absl::Status Trainer::FindRate(const std::string& signature) {
  rate_ = options_.rate;
  if (rate_inputs_.empty() || options_.has_rate) return absl::OkStatus();
  const auto json = nlohmann::json::parse(signature, nullptr,
                                          /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("numbers") &&
      json["numbers"].is_array()) {
    for (const auto& number : json["numbers"]) {
      if (!number.is_object() || !number.contains("name") ||
          !number.contains("value") || number["name"] != rate_names_[0] ||
          !number["value"].is_number()) {
        continue;
      }
      rate_.rate = number["value"].get<double>();
      return CheckOptions(rate_);
    }
  }
  return Invalid(options_.step_folder, ": wants --rate for its input ",
                 rate_names_[0]);
}

// The step's variables by name, others by the evaluation's own values.
absl::StatusOr<std::vector<Tensor>> Trainer::ShareVariables(
    const SavedProgram& saved) {
  std::vector<Tensor> variables = saved.variables;
  const auto& names = saved.program->variables();
  int shared = 0;
  for (size_t i = 0; i < variables.size(); ++i) {
    for (size_t j = 0; j < step_->variables().size(); ++j) {
      if (step_->program().variables()[j].name != names[i].name) continue;
      const Tensor& own = step_->variables()[j];
      if (!(own.type() == variables[i].type())) {
        return Invalid(options_.eval_folder, ": variable \"", names[i].name,
                       "\" is ", variables[i].type().ToString(),
                       ", in the step ", own.type().ToString());
      }
      variables[i] = own;
      ++shared;
    }
  }
  if (shared == 0) {
    return Invalid(options_.eval_folder, ": has no variable of ",
                   options_.step_folder,
                   "'s names: export both with the same modules");
  }
  return variables;
}

absl::Status Trainer::LoadEvaluation() {
  MICA_ASSIGN_OR_RETURN(eval_data_,
                        Dataset::Read("eval_data", options_.eval_data));
  MICA_ASSIGN_OR_RETURN(const SavedProgram saved,
                        ReadSavedProgram(options_.eval_folder, AllOps()));
  eval_signature_ = saved.signature;
  if (!saved.program->updates().empty()) {
    return Invalid(options_.eval_folder,
                   ": the Program updates variables: it is no evaluation");
  }
  MICA_ASSIGN_OR_RETURN(std::vector<Tensor> variables, ShareVariables(saved));
  MICA_ASSIGN_OR_RETURN(
      eval_,
      Runner::Create(options_.eval_folder, saved.program, std::move(variables),
                     static_cast<int>(options_.threads)));
  MICA_RETURN_IF_ERROR(eval_->ReadFrom(*eval_data_, {}));
  class_output_ = eval_->FindOutput([this](const TensorType& type) {
    if (type.rank() == 0 || type.dims[0] != eval_->batch_size()) return false;
    if (!type.is_row_major()) return false;
    return (type.rank() == 1 && type.dtype == DType::kI64) ||
           (type.rank() == 2 && type.dims[1] > 0 &&
            (type.dtype == DType::kF32 || type.dtype == DType::kF64));
  });
  if (class_output_ < 0) {
    return Invalid(options_.eval_folder, ": an evaluation returns f32[",
                   eval_->batch_size(), ",classes] or i64[",
                   eval_->batch_size(), "]; this Program returns neither");
  }
  labels_ = eval_data_->Find(options_.label);
  if (labels_ == nullptr || labels_->type().dtype != DType::kI64 ||
      labels_->type().rank() != 1) {
    return Invalid("--eval_data=", options_.eval_data, ": wants \"",
                   options_.label, "\", i64[rows], got ",
                   eval_data_->ToString());
  }
  return absl::OkStatus();
}

absl::Status Trainer::Resume() {
  if (!options_.checkpoint_path.empty()) {
    RemoveUnfinished(options_.checkpoint_path);
    MICA_ASSIGN_OR_RETURN(
        const std::optional<Progress> found,
        ReadCheckpoint(options_.checkpoint_path, step_->program(),
                       step_->variables(), identity_));
    if (found.has_value()) {
      progress_ = *found;
      if (progress_.epoch >= options_.epochs) {
        std::printf("%s has %lld epochs behind it: nothing is left to do\n",
                    options_.checkpoint_path.c_str(),
                    static_cast<long long>(progress_.epoch));
      } else {
        std::printf("goes on after step %lld, in epoch %lld\n",
                    static_cast<long long>(progress_.step),
                    static_cast<long long>(progress_.epoch + 1));
      }
    }
  }
  if (options_.log_path.empty()) return absl::OkStatus();
  MICA_ASSIGN_OR_RETURN(log_,
                        TrainLog::Open(options_.log_path, progress_.log_bytes));
  if (progress_.step > 0) return absl::OkStatus();
  return log_.Write({{"event", "start"},
                     {"step", options_.step_folder},
                     {"data", data_->ToString()},
                     {"batch_size", step_->batch_size()},
                     {"steps_per_epoch", steps_per_epoch_},
                     {"epochs", options_.epochs},
                     {"seed", options_.seed},
                     {"rate", identity_["rate"]}});
}

absl::StatusOr<TrainSummary> Trainer::Run(
    const volatile std::sig_atomic_t& stop) {
  while (progress_.epoch < options_.epochs) {
    MICA_RETURN_IF_ERROR(TrainEpoch(stop));
    if (stop != 0) break;
    MICA_RETURN_IF_ERROR(FinishEpoch());
  }
  MICA_RETURN_IF_ERROR(WriteTrace());  // Of fewer steps.
  summary_.is_stopped = progress_.epoch < options_.epochs;
  if (summary_.is_stopped) {
    MICA_RETURN_IF_ERROR(Save());
  } else {
    MICA_RETURN_IF_ERROR(WriteResults());
  }
  summary_.epochs = progress_.epoch;
  summary_.steps = progress_.step;
  return summary_;
}

absl::Status Trainer::TrainEpoch(const volatile std::sig_atomic_t& stop) {
  const std::vector<int64_t> order =
      EpochOrder(options_.seed, progress_.epoch, data_->num_rows());
  const int64_t batch = step_->batch_size();
  while (progress_.step_in_epoch < steps_per_epoch_ && stop == 0) {
    const absl::Time start = absl::Now();
    MICA_RETURN_IF_ERROR(TakeStep(absl::MakeConstSpan(order).subspan(
        progress_.step_in_epoch * batch, batch)));
    training_time_ += absl::Now() - start;
    ++steps_of_this_run_;
    if (steps_of_this_run_ == options_.trace_steps) {
      MICA_RETURN_IF_ERROR(WriteTrace());
    }
    ++progress_.step;
    ++progress_.step_in_epoch;
    summary_.steps_per_s = static_cast<double>(steps_of_this_run_) /
                           absl::ToDoubleSeconds(training_time_);
    if (options_.show_progress) ShowProgress();
    if (options_.checkpoint_every > 0 &&
        progress_.step % options_.checkpoint_every == 0) {
      MICA_RETURN_IF_ERROR(Save());
    }
  }
  return absl::OkStatus();
}

absl::Status Trainer::WriteTrace() {
  if (!std::exchange(is_traced_, false)) return absl::OkStatus();
  return StopTraceInto(options_.trace_path);
}

absl::Status Trainer::TakeStep(absl::Span<const int64_t> rows) {
  step_->FillBatch(rows);
  for (const int input : rate_inputs_) {
    WriteFloat(rate(), step_->input(input));
  }
  MICA_RETURN_IF_ERROR(step_->Run());
  const double loss = ReadFloat(step_->output(loss_output_));
  if (!std::isfinite(loss)) {
    return Invalid("the loss is ", loss, " in step ", progress_.step + 1,
                   ", epoch ", progress_.epoch + 1,
                   ": nothing was saved since the last checkpoint; a lower "
                   "--rate may help");
  }
  progress_.loss_sum += loss;
  return absl::OkStatus();
}

absl::Status Trainer::FinishEpoch() {
  summary_.loss =
      progress_.loss_sum / static_cast<double>(progress_.step_in_epoch);
  nlohmann::ordered_json line = {{"event", "epoch"},
                                 {"epoch", progress_.epoch + 1},
                                 {"step", progress_.step},
                                 {"loss", summary_.loss}};
  std::string text =
      absl::StrFormat("epoch %d/%d: loss %.4f", progress_.epoch + 1,
                      options_.epochs, summary_.loss);
  if (eval_ != nullptr) {
    MICA_ASSIGN_OR_RETURN(summary_.accuracy, Evaluate());
    line["accuracy"] = summary_.accuracy;
    absl::StrAppendFormat(&text, ", accuracy %.2f %%", 100 * summary_.accuracy);
  }
  if (!rate_inputs_.empty()) {
    line["rate"] = RateAt(rate_, progress_.step - 1, num_steps());
  }
  line["steps_per_s"] = summary_.steps_per_s;
  absl::StrAppendFormat(&text, ", %.0f steps/s", summary_.steps_per_s);
  if (options_.show_progress) std::fputs("\r\033[K", stderr);
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  MICA_RETURN_IF_ERROR(log_.Write(line));
  ++progress_.epoch;
  progress_.step_in_epoch = 0;
  progress_.loss_sum = 0;
  return Save();
}

absl::StatusOr<double> Trainer::Evaluate() {
  const int64_t batch = eval_->batch_size();
  const int64_t count = eval_data_->num_rows();
  const int64_t* labels = labels_->view().as<int64_t>();
  int64_t correct = 0;
  std::vector<int64_t> rows(batch);
  for (int64_t first = 0; first < count; first += batch) {
    // The last batch is filled up with its own last row.
    for (int64_t i = 0; i < batch; ++i) {
      rows[i] = std::min(first + i, count - 1);
    }
    eval_->FillBatch(rows);
    MICA_RETURN_IF_ERROR(eval_->Run());
    for (int64_t i = 0; i < std::min(batch, count - first); ++i) {
      correct += ClassOf(eval_->output(class_output_), i) == labels[first + i];
    }
  }
  return static_cast<double>(correct) / static_cast<double>(count);
}

absl::Status Trainer::Save() {
  if (options_.checkpoint_path.empty()) return absl::OkStatus();
  progress_.log_bytes = log_.bytes();
  return WriteCheckpoint(options_.checkpoint_path, step_->program(),
                         step_->variables(), progress_, identity_);
}

absl::Status Trainer::WriteResults() {
  if (!options_.out_weights_path.empty()) {
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < step_->variables().size(); ++i) {
      named.push_back({.name = step_->program().variables()[i].name,
                       .tensor = step_->variables()[i]});
    }
    MICA_RETURN_IF_ERROR(WriteSafetensors(options_.out_weights_path, named));
  }
  if (options_.out_eval_folder.empty()) return absl::OkStatus();
  return WriteSavedProgram(
      options_.out_eval_folder,
      {.program = std::make_shared<const Program>(eval_->program()),
       .variables = eval_->variables(),
       .signature = eval_signature_});
}

void Trainer::ShowProgress() {
  const absl::Time now = absl::Now();
  if (now - last_shown_ < absl::Milliseconds(100)) return;
  last_shown_ = now;
  constexpr int kWidth = 24;
  const int done =
      static_cast<int>(kWidth * progress_.step_in_epoch / steps_per_epoch_);
  std::fprintf(
      stderr, "\r\033[K  epoch %lld/%lld [%s%s] loss %.4f, %.0f steps/s",
      static_cast<long long>(progress_.epoch + 1),
      static_cast<long long>(options_.epochs), std::string(done, '#').c_str(),
      std::string(kWidth - done, '.').c_str(),
      progress_.loss_sum / static_cast<double>(progress_.step_in_epoch),
      summary_.steps_per_s);
  std::fflush(stderr);
}

absl::Status CheckWithout(bool is_given, absl::string_view flag,
                          absl::string_view needed) {
  if (!is_given) return absl::OkStatus();
  return Invalid("--", flag, ": wants --", needed, " too");
}

}  // namespace

absl::Status CheckOptions(const TrainOptions& options) {
  if (options.step_folder.empty()) return Invalid("wants --step=FOLDER");
  if (options.data.empty()) {
    return Invalid("wants --data=images=a.npy,labels=b.npy or --data=FILE");
  }
  if (options.eval_folder.empty()) {
    MICA_RETURN_IF_ERROR(
        CheckWithout(!options.eval_data.empty(), "eval_data", "eval"));
    MICA_RETURN_IF_ERROR(
        CheckWithout(!options.out_eval_folder.empty(), "out_eval", "eval"));
  } else if (options.eval_data.empty()) {
    return Invalid("--eval: wants --eval_data too");
  }
  if (options.checkpoint_path.empty()) {
    MICA_RETURN_IF_ERROR(CheckWithout(options.checkpoint_every > 0,
                                      "checkpoint_every", "checkpoint"));
  }
  if (options.epochs < 1) {
    return Invalid("--epochs: wants 1 or more, got ", options.epochs);
  }
  if (options.checkpoint_every < 0) {
    return Invalid("--checkpoint_every: wants 0 or more, got ",
                   options.checkpoint_every);
  }
  if (options.threads < 1 || options.threads > 1024) {
    return Invalid("--threads: wants 1 to 1024, got ", options.threads);
  }
  return CheckOptions(options.rate);
}

absl::StatusOr<TrainSummary> Train(const TrainOptions& options,
                                   const volatile std::sig_atomic_t& stop) {
  MICA_RETURN_IF_ERROR(CheckOptions(options));
  Trainer trainer(options);
  MICA_RETURN_IF_ERROR(trainer.Load());
  return trainer.Run(stop);
}

}  // namespace mica
