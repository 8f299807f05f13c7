#include "analysis/fuse/forward_writes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

using Ints = std::vector<int64_t>;

// Elements of a tensor's memory: offset + sum of index[i] * strides[i], without
// dims of one element.
struct Window {
  Ints dims, strides;
  int64_t offset = 0;
  friend bool operator==(const Window&, const Window&) = default;
};

// Rows of elements that lie next to each other, `pitch` apart.
struct Rows {
  int64_t pitch = 0, first_row = 0, num_rows = 1, first_col = 0, num_cols = 1;
};

std::optional<Window> MakeWindow(const Argument& dims, const Argument& strides,
                                 const Argument& offset) {
  const auto* d = std::get_if<Ints>(&dims);
  const auto* s = std::get_if<Ints>(&strides);
  const auto* o = std::get_if<int64_t>(&offset);
  if (d == nullptr || s == nullptr || o == nullptr || d->size() != s->size()) {
    return std::nullopt;
  }
  Window window{.offset = *o};
  for (size_t i = 0; i < d->size(); ++i) {
    if ((*d)[i] < 1 || (*s)[i] < 0) return std::nullopt;
    if ((*d)[i] == 1) continue;
    window.dims.push_back((*d)[i]);
    window.strides.push_back((*s)[i]);
  }
  return window;
}

// The window of aten.as_strided and of mica.scatter_view.
std::optional<Window> WindowOf(const Op& op) {
  const std::string& name = op.def->name();
  if (name == "aten.as_strided") {
    return MakeWindow(op.arguments[1], op.arguments[2], op.arguments[3]);
  }
  if (name == "mica.scatter_view") {
    return MakeWindow(op.arguments[2], op.arguments[3], op.arguments[4]);
  }
  return std::nullopt;
}

// Neighbouring dims that lie as one become one.
Window Merged(const Window& window) {
  Window merged{.offset = window.offset};
  for (size_t i = 0; i < window.dims.size(); ++i) {
    if (!merged.dims.empty() &&
        merged.strides.back() == window.dims[i] * window.strides[i]) {
      merged.dims.back() *= window.dims[i];
      merged.strides.back() = window.strides[i];
    } else {
      merged.dims.push_back(window.dims[i]);
      merged.strides.push_back(window.strides[i]);
    }
  }
  return merged;
}

// As rows of `pitch`, 0 for its own; nothing if it isn't of that form.
std::optional<Rows> AsRows(const Window& window, int64_t pitch) {
  const size_t rank = window.dims.size();
  if (rank > 2 || (rank > 0 && window.strides[rank - 1] != 1)) return {};
  if (rank == 2 && pitch != 0 && window.strides[0] != pitch) return {};
  Rows rows{.pitch = rank == 2 ? window.strides[0] : pitch};
  if (rank == 2) rows.num_rows = window.dims[0];
  if (rank > 0) rows.num_cols = window.dims[rank - 1];
  if (rows.pitch == 0) return {};
  rows.first_row = window.offset / rows.pitch;
  rows.first_col = window.offset % rows.pitch;
  if (rows.first_col + rows.num_cols > rows.pitch) return {};
  return rows;
}

int64_t EndOf(const Window& window) {
  int64_t end = window.offset + 1;
  for (size_t i = 0; i < window.dims.size(); ++i) {
    end += (window.dims[i] - 1) * window.strides[i];
  }
  return end;
}

bool AreApart(int64_t a, int64_t a_size, int64_t b, int64_t b_size) {
  return a + a_size <= b || b + b_size <= a;
}

// True only if no element is in both.
bool AreDisjoint(const Window& a, const Window& b) {
  if (EndOf(a) <= b.offset || EndOf(b) <= a.offset) return true;
  const Window merged_a = Merged(a), merged_b = Merged(b);
  int64_t pitch = 0;
  if (merged_a.dims.size() == 2) pitch = merged_a.strides[0];
  if (merged_b.dims.size() == 2) pitch = merged_b.strides[0];
  const auto rows_a = AsRows(merged_a, pitch);
  const auto rows_b = AsRows(merged_b, pitch);
  return rows_a.has_value() && rows_b.has_value() &&
         (AreApart(rows_a->first_row, rows_a->num_rows, rows_b->first_row,
                   rows_b->num_rows) ||
          AreApart(rows_a->first_col, rows_a->num_cols, rows_b->first_col,
                   rows_b->num_cols));
}

class Forwarder {
 public:
  Forwarder(const Program& program, const OpRegistry& ops)
      : program_(program), facts_(program), rewriter_(program, ops) {}

  absl::StatusOr<Program> Run();

 private:
  // What an as_strided may read instead of the tensor that it reads.
  struct Source {
    ValueId value = kNoValue;
    bool is_whole = false;  // The value itself, not a window on it.
  };
  Source FindSource(const Op& read) const;

  const Program& program_;
  const ProgramFacts facts_;
  Rewriter rewriter_;
};

Forwarder::Source Forwarder::FindSource(const Op& read) const {
  Source source{.value = ProgramFacts::ValueOf(read, 0)};
  const std::optional<Window> wanted = WindowOf(read);
  const TensorType& type = program_.type(read.results[0]);
  while (wanted.has_value()) {
    const OpId id = facts_.ProducerOf(source.value);
    if (!facts_.Is(id, "mica.scatter_view")) break;
    const Op& write = facts_.op(id);
    const ValueId base = ProgramFacts::ValueOf(write, 0);
    const ValueId written = ProgramFacts::ValueOf(write, 1);
    const std::optional<Window> window = WindowOf(write);
    if (!window.has_value() || written == kNoValue ||
        !(program_.type(base) == program_.type(source.value))) {
      break;
    }
    if (*window == *wanted && SameShape(program_.type(written), type) &&
        program_.type(written).is_scalar == type.is_scalar &&
        (program_.type(written) == type ||
         facts_.MayChangeStrides(read.results[0]))) {
      return {.value = written, .is_whole = true};
    }
    if (!AreDisjoint(*window, *wanted)) break;
    source.value = base;
  }
  return source;
}

absl::StatusOr<Program> Forwarder::Run() {
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (const Op& op : program_.ops()) {
    if (op.def->name() != "aten.as_strided") {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op));
      continue;
    }
    const Source source = FindSource(op);
    if (source.is_whole) {
      rewriter_.Map(op.results[0], rewriter_.NewId(source.value));
      continue;
    }
    const ValueId read = ProgramFacts::ValueOf(op, 0);
    const ValueId before = rewriter_.NewId(read);
    rewriter_.Map(read, rewriter_.NewId(source.value));
    MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op));
    rewriter_.Map(read, before);
  }
  return rewriter_.Finish();
}

}  // namespace

absl::StatusOr<Program> ForwardWrites(Program program, const OpRegistry& ops) {
  const bool has_writes = std::any_of(
      program.ops().begin(), program.ops().end(),
      [](const Op& op) { return op.def->name() == "mica.scatter_view"; });
  if (!has_writes) return program;
  MICA_ASSIGN_OR_RETURN(Program forwarded, Forwarder(program, ops).Run());
  return RemoveDeadOps(std::move(forwarded), ops);
}

}  // namespace mica
