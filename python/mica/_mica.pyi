"""The native module: what python/bridge and python/capture define."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

class Program:
    """A parsed Program, immutable; `mica.Program` is around it."""

    @staticmethod
    def parse(text: str) -> Program:
        """Reads the text form; errors tell the place."""
    def rename_variables(self, names: dict[str, str]) -> Program:
        """The same with other names, new by old; others stay."""
    def keep_outputs(self, indices: list[int]) -> Program:
        """The same with these outputs alone, in order."""
    def fusion(self) -> str:
        """Why ops that could be one region aren't, a line each."""
    def parts(self) -> dict[str, Any]:
        """The graph as plain data: see `mica.Program.parts`."""
    def unused_variables(self) -> list[str]:
        """Variables that no op reads and no update writes."""
    @property
    def name(self) -> str:
        """Without the "@"."""
    @property
    def inputs(self) -> list[tuple[str, str]]:
        """(name, type) each, such as ("x", "f32[8,64]")."""
    @property
    def outputs(self) -> list[tuple[str, str]]:
        """(name, type) each, in order."""
    @property
    def variables(self) -> list[tuple[str, str]]:
        """(the user's name, type) each."""
    @property
    def updated_inputs(self) -> list[str]:
        """Inputs that a run writes."""
    @property
    def updated_variables(self) -> list[str]:
        """Variables that a run writes."""
    @property
    def num_ops(self) -> int:
        """Those in bodies are not counted."""
    @property
    def op_counts(self) -> dict[str, int]:
        """How often each operator occurs."""
    @property
    def opaque_ops(self) -> dict[str, int]:
        """Those that run through ATen, and how often."""

def registered_ops() -> dict[str, str]:
    """The schema of each operator, by name."""

def compile_regions(count: int) -> tuple[str, int, float]:
    """Compiles that many small regions, none of them kept.

    Returns:
      What compiles ("" if MICA_JIT wants none, a reason if nothing does), how
      many it did, and the milliseconds in all.
    """

def instruction_set() -> str:
    """What kernels are compiled for here: "x86-64-v3" or "x86-64-v4"."""

class Executor:
    """Runs Programs and keeps what it decided for them."""

    def __init__(
        self,
        place: str,
        num_threads: int,
        num_streams: int,
        queue: bool,
        frozen: bool,
        fuse: bool,
        oracle: bool = False,
    ) -> None: ...
    def run(
        self,
        program: Program,
        feed: dict[str, torch.Tensor],
        variables: dict[str, torch.Tensor],
        fetch_list: Sequence[str],
    ) -> list[torch.Tensor]:
        """One run. `fetch_list` empty: what the Program returns."""
    def plan_text(
        self,
        program: Program,
        feed: dict[str, torch.Tensor],
        fetch_list: Sequence[str],
    ) -> str:
        """The Plan that `run` would use: each step's kernel and memory."""

class Schedule:
    """An ordered list of Jobs for each device."""

    @staticmethod
    def make(
        kind: str,
        devices: int,
        micro_batches: int,
        chunks: int,
        costs: list[float],
    ) -> Schedule:
        """One of a known kind; `costs` as `mica.Schedule` orders them."""
    @staticmethod
    def parse(text: str, costs: list[float]) -> Schedule:
        """Reads the text form; raises ValueError for what could not end."""
    def table(self) -> str:
        """Jobs over time as text."""
    def svg(self) -> str:
        """Jobs over time as a drawing."""
    @property
    def name(self) -> str:
        """The kind."""
    @property
    def num_devices(self) -> int:
        """At least 1."""
    @property
    def num_stages(self) -> int:
        """At least as many as devices."""
    @property
    def num_micro_batches(self) -> int:
        """Of one step."""
    @property
    def bubble(self) -> float:
        """The part of the time in which devices idle, by the costs."""

class Pipeline:
    """A Program cut and planned for a Schedule."""

    @staticmethod
    def make(
        program: Program,
        schedule: Schedule,
        scopes: list[str],
        fetch_list: list[str],
        cpus: list[int],
        num_threads: int,
        fuse: bool,
        frozen: bool,
    ) -> Pipeline:
        """Cuts, before the modules of `scopes` or by cost, and plans."""
    def run(
        self,
        feed: dict[str, torch.Tensor] | list[dict[str, torch.Tensor]],
        variables: dict[str, torch.Tensor],
    ) -> list[list[torch.Tensor]]:
        """One step: the fetches of each micro-batch."""
    def stage_texts(self) -> list[tuple[str, str]]:
        """(title, text) of each Job type and stage."""
    def trace(self) -> str:
        """The last run for Perfetto, as JSON."""

def annotate(
    callable: Callable[..., Any],
    kind: str,
    read: list[int],
    changed: list[int],
    reason: str,
) -> None:
    """What calls of a callable do; `reason` is told where one ends a graph."""

def drop_annotation(id: int) -> None:
    """Of an object that has died."""

def kind_of(callable: Callable[..., Any]) -> int:
    """How capture takes calls of it: a FunctionKind, as a number."""

def mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """Says that a size of a tensor will vary."""

def drop_dynamic(id: int) -> None:
    """Of a tensor that has died."""

def stance() -> str:
    """The current one."""

def set_stance(stance: str) -> None:
    """In all threads. Raises ValueError for no such stance."""

def call_in_place(
    function: Callable[..., Any], other: Callable[..., Any]
) -> None:
    """From now on a watched run calls the other with the same arguments."""

def sum_parts(items: Sequence[Any]) -> tuple[float, float] | None:
    """`sum(items)` without what was lost in rounding, and that."""

def call_in_place_of(module: str, name: str, other: Callable[..., Any]) -> None:
    """The same of a function of that name that may not be imported yet."""

def set_checker(checker: Callable[..., Any]) -> None:
    """What answers calls under the stance "check"."""

def enter_disabled() -> None:
    """From here on this thread runs compiled callables eagerly."""

def leave_disabled() -> None:
    """Until this is called as often."""

class Compiled:
    """What `mica.compile` gives: a callable with its records."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """What was compiled."""
    def _mica_report(self) -> dict[str, Any]:
        """What `mica.explain` shows, as dicts and lists."""
    def _mica_hits(self) -> int:
        """How many calls a record has served."""
    def _mica_matches(self, *args: Any, **kwargs: Any) -> bool:
        """Whether the most recent record fits the call."""
    def _mica_describe(
        self, *args: Any, **kwargs: Any
    ) -> dict[str, Any] | None:
        """The record that fits the call, as a dict; None if none does."""
    def _mica_symbolic(
        self,
        sizes: tuple[tuple[str, tuple[tuple[int, int], ...], int, int], ...],
        results: tuple[tuple[int, ...], int],
        *args: Any,
        **kwargs: Any,
    ) -> str:
        """The text of the Program with symbols, of the record that fits.

        Args:
          sizes: Name, inputs and dims that have it, least and greatest.
          results: Numbers of the results that it returns; of how many numbers.
          *args: The call's.
          **kwargs: The call's.
        """
    def _mica_records(self) -> list[dict[str, Any]]:
        """Each record as `_mica_describe` gives it."""
    def _mica_touched(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """What records that may serve the call may write."""
    def _mica_rehearse(
        self, *args: Any, **kwargs: Any
    ) -> tuple[Any, list[Any]] | None:
        """Serves the call but for its host calls: (result, those)."""
    def _mica_watch(
        self, *args: Any, **kwargs: Any
    ) -> tuple[Any, list[Any] | str]:
        """Runs eagerly, watched: (result, calls, or why they are unknown)."""
    def _mica_call(self, *args: Any, **kwargs: Any) -> Any:
        """The call as if there were no stance."""
    def _mica_reset(self) -> None:
        """Forgets records, refusals and statistics."""
    @property
    def _mica_arguments(self) -> dict[str, Any] | None:
        """Those of `mica.compile`; None of what no user compiled."""

class CompiledFunction(Compiled):
    """Of what is no module: attributes are those of the callable inside."""

class CompiledModule(Compiled):
    """Of a torch.nn.Module: base of the classes in mica/modules.py."""

def make_compiled(*args: Any) -> Compiled:
    """A new one; arguments as `mica.compile` passes them."""

def finish_module_class(cls: type) -> None:
    """Makes a class of compiled modules final: its calls are native."""

def write_saved(
    path: str,
    program: Program,
    variables: list[torch.Tensor],
    signature: str,
) -> None:
    """Replaces an exported folder."""

def read_saved(path: str) -> tuple[Program, list[torch.Tensor], str]:
    """(Program, values of its variables, signature) of a folder."""

def init_capture(torch_dir: str, mica_dir: str) -> None:
    """Where torch's and Mica's own Python files are; called once."""

class CacheEntry:
    """One file of the cache on disk."""

    @property
    def name(self) -> str:
        """Of the file."""
    @property
    def bytes(self) -> int:
        """Its size."""
    @property
    def used(self) -> float:
        """When it was used last, in seconds since 1970."""
    @property
    def program(self) -> str:
        """The Program's name; may be empty."""
    @property
    def state(self) -> str:
        """Either "ok", "other build" or what is damaged."""

def cache_folder() -> str:
    """Where Plans are kept on disk; it may not exist yet."""

def cache_list(folder: str) -> list[CacheEntry]:
    """Latest use last."""

def cache_remove(folder: str, name: str) -> None:
    """Removes one file."""

def cache_prune(folder: str, max_bytes: int) -> int:
    """Removes those not used for longest; the bytes freed."""

def plan_stats() -> dict[str, int]:
    """How many Plans were built, shared and loaded."""

def start_trace() -> None:
    """Begins to record what the engine does."""

def stop_trace(path: str) -> None:
    """Ends that, and writes them."""
