"""Schedules: which device runs which part of a training step when."""

from __future__ import annotations

from collections.abc import Mapping

from mica import _mica

_COSTS = {
    "forward": 1.0,
    "backward_input": 1.0,
    "backward_weight": 1.0,
    "update": 0.0,
    "send": 0.0,
}


class Schedule:
    """For each device an ordered list of Jobs, as data.

    A Job is a part of a step (forward, backward or its two parts, update) of
    one stage on one micro-batch. `str(schedule)` is the text form that `parse`
    reads; `mica.Executor.run` runs a Program under a Schedule.
    """

    def __init__(
        self,
        kind: str,
        *,
        devices: int,
        micro_batches: int,
        chunks: int = 0,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        """Makes a Schedule of a known kind.

        Args:
          kind: "gpipe", "1f1b", "interleaved", "zb_h1" or "zbv".
          devices: How many devices there are.
          micro_batches: How many micro-batches make one step.
          chunks: Stages a device; 0 for what the kind wants.
          costs: A device's time for one micro-batch, in any unit: forward,
            backward_input and backward_weight, by default 1, and update and
            send, by default 0. The table and the picture show Jobs that long,
            and zb_h1 and zbv are ordered for it.
        Raises:
          ValueError: There is no such kind, a number is out of range, or there
            is no such cost.
        """
        self._native = _mica.Schedule.make(
            kind, devices, micro_batches, chunks, _numbers(costs)
        )

    @classmethod
    def parse(
        cls, text: str, costs: Mapping[str, float] | None = None
    ) -> Schedule:
        """Reads the text form.

        Args:
          text: What `str(schedule)` gives; see docs/schedules.md.
          costs: As for a Schedule of a known kind.
        Returns:
          The Schedule, which is complete and can end.
        Raises:
          ValueError: The text is malformed, a Job is missing or there twice,
            or the Schedule would deadlock; names the Job, or the cycle of Jobs
            that wait for each other.
        """
        schedule = cls.__new__(cls)
        schedule._native = _mica.Schedule.parse(text, _numbers(costs))
        return schedule

    @property
    def name(self) -> str:
        """The kind, or the name in the text."""
        return self._native.name

    @property
    def num_devices(self) -> int:
        """How many devices it is for."""
        return self._native.num_devices

    @property
    def num_stages(self) -> int:
        """How many stages the step is cut into."""
        return self._native.num_stages

    @property
    def num_micro_batches(self) -> int:
        """How many micro-batches make one step."""
        return self._native.num_micro_batches

    @property
    def bubble(self) -> float:
        """The share of the devices' time in which they idle, by the costs."""
        return self._native.bubble

    def table(self) -> str:
        """A row a device, a column for as long as the shortest Job takes."""
        return self._native.table()

    def svg(self) -> str:
        """The timeline as a picture, in SVG."""
        return self._native.svg()

    def __str__(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return (
            f"<mica.Schedule {self.name}: {self.num_devices} devices, "
            f"{self.num_stages} stages, {self.num_micro_batches} micro-batches>"
        )


def _numbers(costs: Mapping[str, float] | None) -> list[float]:
    given = dict(costs or {})
    unknown = sorted(given.keys() - _COSTS.keys())
    if unknown:
        raise ValueError(f"costs: wants {', '.join(_COSTS)}, got {unknown[0]}")
    return [float(given.get(name, cost)) for name, cost in _COSTS.items()]
