#include "analysis/plan/plan_key.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/ir/content.h"
#include "kernels/cpu/identity.h"

namespace mica {

PlanFields PlanFieldsOf(const PlanOptions& options) {
  // All fields, so that a new one can't be forgotten here. Where dumps go
  // decides nothing.
  const auto& [num_threads, queue, take_nanoseconds, num_streams,
               wait_nanoseconds, frozen, precision, fuse, fusing, share_layers,
               inline_calls, reuse_buffers, write_parts, lend_above_bytes,
               prepare_aten, dump_folder] = options;
  return {num_threads,      queue,           take_nanoseconds, num_streams,
          wait_nanoseconds, frozen,          precision,        fuse,
          fusing,           share_layers,    inline_calls,     reuse_buffers,
          write_parts,      lend_above_bytes};
}

std::string PlanSettingOf(const PlanOptions& options) {
  const auto [num_threads, queue, take_nanoseconds, num_streams,
              wait_nanoseconds, frozen, precision, fuse, fusing, share_layers,
              inline_calls, reuse_buffers, write_parts, lend_above_bytes] =
      PlanFieldsOf(options);
  return absl::StrCat(
      "threads=", num_threads, " queue=", queue,
      " take_nanoseconds=", take_nanoseconds, " streams=", num_streams,
      " wait_nanoseconds=", wait_nanoseconds, " frozen=", frozen,
      " precision=", PrecisionName(precision), " fuse=", fuse, fusing,
      " share_layers=", share_layers, " inline_calls=", inline_calls,
      " reuse_buffers=", reuse_buffers, " write_parts=", write_parts,
      " lend_above_bytes=", lend_above_bytes,
      " opaque=", options.prepare_aten != nullptr, "\n", cpu::CodeIdentity(),
      "\n", cpu::CpuIdentity());
}

PlanKey PlanKeyOf(const Program& program, const PlanOptions& options) {
  PlanKey key{.content = ContentOf(program), .setting = PlanSettingOf(options)};
  // The setting is short; the content may be long and is read once.
  key.fingerprint = FingerprintOf(
      absl::StrCat(FingerprintOf(key.content).ToHex(), "\n", key.setting));
  return key;
}

}  // namespace mica
