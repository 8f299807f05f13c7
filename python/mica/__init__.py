"""Mica: a native static-graph runtime for PyTorch programs.

`mica.compile(fn_or_module)` watches one real run of a program and runs it as
a static graph from then on; `mica.explain` tells what it made of it.
`mica.export` writes what was recorded to a folder, which `mica.load` and the
tools without Python take.
`mica.from_onnx` and `mica.from_exported` make modules of ONNX files and of
torch.export's archives.
`mica.Executor(place).run(program, feed=..., fetch_list=[...])` runs Programs
by name of feed and fetch, one at a time or, with `schedule=`, as a pipeline
over micro-batches; `mica.capture` gives the Program of a call.
`mica.annotate` and `mica.disable` tell what users know of functions;
`mica.stance("check")` runs eager beside every hit and compares;
`mica.to_fx` gives what was recorded as a torch.fx.GraphModule.
`mica.trace` writes what the engine did when to a file for Perfetto.
`torch.compile(model, backend="mica")` leaves the watching to Dynamo and runs
its graphs.

Environment, of which `mica.options.set` sets the same from Python:
  MICA_NUM_THREADS: Threads of one op, or of the queue; by default torch's
    setting.
  MICA_QUEUE: If 0, ops run one after the other, each on MICA_NUM_THREADS
    threads of OpenMP. Else these threads take ops that don't need each other,
    and pieces of wide ones, from a queue. See `Executor`.
  MICA_SPIN: If 0, threads without work sleep at once; by default they look for
    some for a moment.
  MICA_HANG_REPORT: A number of seconds. A run in which no step starts or ends
    for so long is reported in the log, with the steps that run and that wait.
  MICA_POISON: If 1, memory is overwritten as soon as the plan says that nothing
    reads it any more: a check of plans, which changes no result.
  MICA_NUM_STREAMS: Ops are placed on so many streams beforehand, each a thread
    of its own; by default 1.
  MICA_TRACE: A file. What the engine does until the process ends is written
    there, as by `mica.trace`.
  MICA_OFFLOAD_DIR: The folder of the files in which weights lie that
    `mica.compile(…, offload=True)` has moved there; by default /var/tmp.
  MICA_CAPTURE_BUDGET: The seconds that the captures of a callable may take
    beyond what they gain, before calls that need another one run eagerly.
  MICA_LOGS: A comma-separated choice of guards, recompiles and graph.
  MICA_PROGRESS: If 0, a capture that takes over a second isn't told of at a
    terminal.
  MICA_DISABLE: If 1, compiled callables run eagerly.
  MICA_CACHE_DIR: Where Plans are kept on disk, all of them; by default those
    that took long, in $XDG_CACHE_HOME/mica or ~/.cache/mica. See `mica cache`.
  MICA_PLAN_CACHE: If 0, no Plans are kept on disk.
  MICA_JIT: interpreter or off leaves elementwise regions to vector loops; llvm,
    the default, compiles them where libmica_llvm.so is.
  MICA_LLVM_LIBRARY: Where that is; by default beside the extension.
  MICA_SIMD: v3 holds kernels to AVX2 on machines with AVX-512, v1 to SSE2 on
    any; without it they use what the processor has. oneDNN's kernels are held
    by ONEDNN_MAX_CPU_ISA. MICA_SIMD has to be set before the process begins, as
    has MICA_TRACE.

A compiled callable raises what the program raises. `Executor` and `Program`
raise ValueError for what is wrong with a program or a feed, LookupError for a
name that there is not, NotImplementedError for what is legal but not written
yet, MemoryError, and RuntimeError for a library that failed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mica import environment as _environment

_environment.check()  # Imports torch, whose libraries the extension uses.
_environment.load_extension()

import torch  # noqa: E402

from mica import _mica  # noqa: E402

_mica.init_capture(
    os.path.dirname(os.path.abspath(torch.__file__)),
    os.path.dirname(os.path.abspath(__file__)),
)

from mica import checkpoints as _checkpoints  # noqa: E402, F401
from mica import dynamo_hints as _dynamo_hints  # noqa: E402, F401
from mica import folds as _folds  # noqa: E402, F401
from mica import grown as _grown  # noqa: E402, F401
from mica import in_python as _in_python  # noqa: E402, F401
from mica import options  # noqa: E402
from mica.annotate import annotate, annotate_own, disable  # noqa: E402
from mica.backends.dynamo import register as _register  # noqa: E402
from mica.captured import capture  # noqa: E402
from mica.compile import compile, reset  # noqa: E402
from mica.dynamic import mark_dynamic  # noqa: E402
from mica.errors import CaptureError, CheckError, MicaWarning  # noqa: E402
from mica.explain import explain  # noqa: E402
from mica.fx import to_fx  # noqa: E402
from mica.imported.opening import from_exported, from_onnx  # noqa: E402
from mica.programs.executor import Executor  # noqa: E402
from mica.programs.program import Program  # noqa: E402
from mica.programs.records import Claim, Record, records  # noqa: E402
from mica.programs.schedule import Schedule  # noqa: E402
from mica.saved.export import export  # noqa: E402
from mica.saved.load import Loaded, load  # noqa: E402
from mica.stance import stance  # noqa: E402
from mica.trace import trace, trace_whole_process  # noqa: E402

if TYPE_CHECKING:
    from mica.explaining.explanation import Explanation


def __getattr__(name: str) -> Any:
    if name == "Explanation":  # Late: see mica.explain.
        from mica.explaining.explanation import Explanation

        return Explanation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_register()
annotate_own()
if _path := os.environ.get("MICA_TRACE"):
    trace_whole_process(_path)

__all__ = [
    "CaptureError",
    "CheckError",
    "Claim",
    "Executor",
    "Explanation",
    "Loaded",
    "MicaWarning",
    "Program",
    "Record",
    "Schedule",
    "annotate",
    "capture",
    "compile",
    "disable",
    "explain",
    "export",
    "from_exported",
    "from_onnx",
    "load",
    "mark_dynamic",
    "options",
    "records",
    "reset",
    "stance",
    "to_fx",
    "trace",
]
