"""Runs Programs by name of feed and fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch

from mica import _mica
from mica.options import default_num_streams, default_num_threads, default_queue
from mica.programs.program import Program
from mica.programs.schedule import Schedule

# How many Programs, cut and planned for a Schedule, an Executor keeps.
_MAX_PIPELINES = 8


class Executor:
    """Runs Programs on one place.

    What was decided for a Program, its fetches and its feeds' sizes is kept
    and used again by later runs.
    """

    def __init__(
        self,
        place: str = "cpu",
        *,
        num_threads: int | None = None,
        num_streams: int | None = None,
        queue: bool | None = None,
        frozen: bool = False,
        fuse: bool = True,
    ) -> None:
        """Makes an Executor.

        Args:
          place: "cpu" or "cpu:0".
          num_threads: Threads of one op, or of the queue; by default
            MICA_NUM_THREADS, or torch's setting.
          num_streams: Threads on which ops that don't need each other run at
            once; by default MICA_NUM_STREAMS, or 1. A process that is forked
            later has to make an Executor of its own.
          queue: Whether the threads take ops from a queue as soon as those
            before them have ended, so that narrow ops run side by side, and
            wide ones are cut into pieces that threads share as they are free;
            else ops run one after the other, each on a team of OpenMP. By
            default so, unless MICA_QUEUE is 0. Results don't depend on when
            what ran where. Without effect with several streams.
          frozen: Variables never change, so that packed copies of them may be
            kept.
          fuse: Merge neighbouring ops into fused ones.
        Raises:
          ValueError: The place is malformed, or num_threads or num_streams is
            below 1.
          NotImplementedError: There is no such device yet.
        """
        threads = default_num_threads() if num_threads is None else num_threads
        streams = default_num_streams() if num_streams is None else num_streams
        queued = default_queue() if queue is None else queue
        self._native = _mica.Executor(
            place, threads, streams, queued, frozen, fuse
        )
        self._num_threads = threads
        self._frozen = frozen
        self._fuse = fuse
        self._pipelines: dict[tuple[Any, ...], _mica.Pipeline] = {}

    @overload
    def run(
        self,
        program: Program,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[str] | None = None,
        *,
        schedule: None = None,
    ) -> list[torch.Tensor]: ...
    @overload
    def run(
        self,
        program: Program,
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        fetch_list: Sequence[str] | None = None,
        *,
        schedule: Schedule,
        split_at: Sequence[str] = (),
        cpus: Sequence[int] = (),
    ) -> list[list[torch.Tensor]]: ...
    def run(
        self,
        program: Program,
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        fetch_list: Sequence[str] | None = None,
        *,
        schedule: Schedule | None = None,
        split_at: Sequence[str] = (),
        cpus: Sequence[int] = (),
    ) -> list[torch.Tensor] | list[list[torch.Tensor]]:
        """Runs a Program once.

        Args:
          program: The Program; each of its variables needs a tensor in
            `program.tensors`. Inputs and variables that it updates are written
            in place.
          feed: A value for each input, by name: a torch.Tensor or numpy array
            of the input's dtype and shape, or a Python number for a host
            scalar.
          fetch_list: Names of values to return, any value of the Program; by
            default what the Program returns.
          schedule: Runs the Program as a pipeline, see `Schedule`: it is a
            training step on one micro-batch, or a forward pass. Gradients are
            summed over the micro-batches, in their order, and updates made
            once. A feed has the rows of all micro-batches in its first
            dimension, or `feed` is a list of one mapping a micro-batch; what
            updates read is fed as it is.
          split_at: The modules with which the stages begin, but for the first,
            such as ["model.layers.2"]; by default stages cost about the same.
          cpus: The CPU that each device's thread stays on; by default any.
        Returns:
          New tensors, in order of `fetch_list`. No later run writes them. Of a
          Schedule such a list for each micro-batch.
        Raises:
          ValueError: A feed is missing, extra or ill-typed; gives what was
            wanted and what came. The Program can't be cut for the Schedule;
            says why. No variable is updated then.
          LookupError: A fetch is no value of the Program, a variable has no
            tensor, or no kernel fits an op; names it.
          MemoryError: No memory; gives the bytes asked and free.
          RuntimeError: A library failed; its own text.
        """
        if schedule is not None:
            return self._run_schedule(
                program, feed, fetch_list, schedule, split_at, cpus
            )
        if isinstance(feed, Sequence) or split_at or cpus:
            raise ValueError(
                "a list of feeds, split_at and cpus are for a schedule"
            )
        return self._native.run(
            program._native,
            _feeds(program, feed),
            program.tensors,
            list(fetch_list or []),
        )

    def _run_schedule(
        self,
        program: Program,
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        fetch_list: Sequence[str] | None,
        schedule: Schedule,
        split_at: Sequence[str],
        cpus: Sequence[int],
    ) -> list[list[torch.Tensor]]:
        pipeline = self._pipeline(program, fetch_list, schedule, split_at, cpus)
        feeds: Any
        if isinstance(feed, Sequence):
            feeds = [_feeds(program, one) for one in feed]
        else:
            feeds = _feeds(program, feed)
        results = pipeline.run(feeds, program.tensors)
        for name in program._native.updated_variables:
            torch.autograd.graph.increment_version(program.tensors[name])
        return results

    def _pipeline(
        self,
        program: Program,
        fetch_list: Sequence[str] | None,
        schedule: Schedule,
        split_at: Sequence[str],
        cpus: Sequence[int],
    ) -> _mica.Pipeline:
        fetches, scopes = list(fetch_list or []), list(split_at)
        key = (
            program._native,
            schedule._native,
            tuple(fetches),
            tuple(scopes),
            tuple(cpus),
        )
        pipeline = self._pipelines.pop(key, None)
        if pipeline is None:
            pipeline = _mica.Pipeline.make(
                program._native,
                schedule._native,
                scopes,
                fetches,
                list(cpus),
                self._num_threads,
                self._fuse,
                self._frozen,
            )
        while len(self._pipelines) >= _MAX_PIPELINES:
            del self._pipelines[next(iter(self._pipelines))]
        self._pipelines[key] = pipeline
        return pipeline

    def schedule_text(
        self,
        program: Program,
        schedule: Schedule,
        fetch_list: Sequence[str] | None = None,
        *,
        split_at: Sequence[str] = (),
    ) -> str:
        """What `run` would do under a Schedule.

        Args:
          program: As in `run`.
          schedule: As in `run`.
          fetch_list: As in `run`.
          split_at: As in `run`.
        Returns:
          By device its memory between Jobs; by stage and part how many steps
          it has, what it receives and what it sends; then the Programs.
        Raises:
          ValueError: As `run`.
          LookupError: As `run`.
        """
        pipeline = self._pipeline(program, fetch_list, schedule, split_at, ())
        texts = [str(pipeline)]
        for name, text in pipeline.stage_texts():
            texts.append(f"// {name}\n{text}")
        return "\n".join(texts)

    def schedule_trace(
        self,
        program: Program,
        schedule: Schedule,
        fetch_list: Sequence[str] | None = None,
        *,
        split_at: Sequence[str] = (),
        cpus: Sequence[int] = (),
    ) -> str:
        """When the Jobs of the last `run` with these arguments ran.

        Args:
          program: As in `run`.
          schedule: As in `run`.
          fetch_list: As in `run`.
          split_at: As in `run`.
          cpus: As in `run`.
        Returns:
          JSON for Perfetto or chrome://tracing, with an arrow for what goes to
          another device; tools/draw_schedule.py draws it. Empty before the
          first such run.
        Raises:
          ValueError: As `run`.
          LookupError: As `run`.
        """
        pipeline = self._pipeline(program, fetch_list, schedule, split_at, cpus)
        return pipeline.trace()

    def plan_text(
        self,
        program: Program,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[str] | None = None,
    ) -> str:
        """The Plan that `run` would use: one line a step.

        Args:
          program: As in `run`.
          feed: As in `run`.
          fetch_list: As in `run`.
        Returns:
          For each step its kernel and where its operands lie.
        Raises:
          ValueError: As `run`.
          LookupError: As `run`.
        """
        return self._native.plan_text(
            program._native, _feeds(program, feed), list(fetch_list or [])
        )


def _feeds(program: Program, feed: Mapping[str, Any] | None) -> dict[str, Any]:
    if not feed:
        return {}
    if all(type(value) is torch.Tensor for value in feed.values()):
        return dict(feed)
    types = dict(program.inputs)
    return {
        name: _as_tensor(value, types.get(name, ""))
        for name, value in feed.items()
    }


_SCALAR_DTYPES = {"f64": torch.float64, "i64": torch.int64, "bool": torch.bool}


def _as_tensor(value: Any, wanted: str) -> Any:
    """A feed as a tensor; what is none is left for the engine to refuse."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (bool, int, float)):
        dtype = _SCALAR_DTYPES.get(wanted)
        return torch.tensor(value, dtype=dtype)
    if hasattr(value, "__array_interface__"):
        return torch.as_tensor(value)
    return value
