"""Runs records by a compiler other than Mica's own: `backend=`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mica import _mica
from mica.programs.described import constants
from mica.programs.graph_module import Builder
from mica.programs.tensor_types import parse_type

# Of a torch.fx.GraphModule and its example inputs.
Backend = Callable[..., Callable[..., Any]]


def make_runner(backend: Backend, graph: dict[str, Any]) -> Runner:
    """Has a backend compile the graph of a record.

    Args:
      backend: Takes a GraphModule and example inputs, as torch.compile's do,
        and gives a callable of such inputs that returns a sequence of what the
        module returns.
      graph: `program` (its text), `states` (the tensors of its first
        variables), `fed` (which of them are gradients, found anew at each
        run), `constants` (bytes of the other variables), `inputs`, `numbers`,
        `reads` as (output, recorded value), `host_results` (outputs) and
        `results` as (output, sizes, strides).
    Returns:
      What runs the record.
    """
    return Runner(backend, graph)


class Runner:
    """Runs the graph, without guards, with Mica's order of effects.

    Nothing is written before everything is computed and each number that the
    program read is the recorded one.
    """

    def __init__(self, backend: Backend, graph: dict[str, Any]) -> None:
        program = _mica.Program.parse(graph["program"])
        parts = program.parts()
        names = [name for name, _ in program.variables]
        tensors = [_stored(state) for state in graph["states"]]
        tensors += constants(program, graph)
        self._fed: list[int] = graph["fed"]
        self._reads: list[tuple[int, Any]] = graph["reads"]
        self._host_results: list[int] = graph["host_results"]
        self._results: list[tuple[int, list[int], list[int]]] = graph["results"]
        self._types = [parse_type(kind) for _, kind in program.outputs]
        inputs = {name: i for i, name in enumerate(parts["inputs"])}
        states = {value: i for i, (value, _) in enumerate(parts["variables"])}
        self._targets = [
            (target in inputs, inputs.get(target, states.get(target, -1)))
            for target, _ in parts["updates"]
        ]
        self.module = Builder(
            parts,
            dict(zip(names, tensors, strict=True)),
            fed=[names[i] for i in self._fed],
            updates_in_place=False,
        ).build()
        examples = self._given(
            graph["inputs"], graph["states"], graph["numbers"]
        )
        with torch.no_grad(), _no_autocast():
            self._compiled = backend(self.module, examples)
        if not callable(self._compiled):
            raise TypeError(
                f"the backend gave a {type(self._compiled).__name__}, no "
                "callable"
            )

    def __call__(
        self,
        inputs: Sequence[torch.Tensor],
        states: Sequence[torch.Tensor],
        numbers: Sequence[float],
    ) -> tuple[list[Any], list[float]] | None:
        """One run.

        Returns:
          The tensors that the Program returns, each in memory of its own and
          None for numbers, and the numbers that are part of the result; None if
          a number that the program read isn't the recorded one: then nothing
          was written.
        """
        random = torch.get_rng_state()
        with torch.no_grad(), _no_autocast():
            found = self._compiled(*self._given(inputs, states, numbers))
            found = list(found)
            wanted = len(self._types) + len(self._targets)
            if len(found) != wanted:
                raise ValueError(
                    f"the backend's callable returned {len(found)} values, the "
                    f"graph has {wanted}"
                )
            for output, value in self._reads:
                if not _is_same_number(found[output], value):
                    torch.set_rng_state(random)
                    return None
            memory = {_memory(tensor) for tensor in (*inputs, *states)}
            outputs: list[Any] = [None] * len(self._types)
            for output, sizes, strides in self._results:
                outputs[output] = self._own(
                    found[output], output, sizes, strides, memory
                )
            self._commit(found[len(self._types) :], inputs, states)
        return outputs, [float(found[i]) for i in self._host_results]

    def _given(
        self, inputs: Sequence[Any], states: Sequence[Any], numbers: Any
    ) -> list[Any]:
        return [
            *map(_stored, inputs),
            *numbers,
            *[_stored(states[i]) for i in self._fed],
        ]

    def _own(
        self,
        found: torch.Tensor,
        output: int,
        sizes: list[int],
        strides: list[int],
        memory: set[int],
    ) -> torch.Tensor:
        """An output as eager laid it out, in memory that nobody else has."""
        dtype, own_sizes, own_strides = self._types[output]
        if found.dtype is not dtype or list(found.shape) != own_sizes:
            raise ValueError(
                f"the backend's callable returned {found.dtype} "
                f"{list(found.shape)} for {dtype} {own_sizes}"
            )
        found = found.detach().resolve_conj().resolve_neg()
        if (
            list(found.stride()) != own_strides
            or found.storage_offset() != 0
            or _memory(found) in memory
        ):
            assert own_sizes is not None and own_strides is not None
            copy = torch.empty_strided(own_sizes, own_strides, dtype=dtype)
            found = copy.copy_(found)
        memory.add(_memory(found))
        if (sizes, strides) != (own_sizes, own_strides):
            found = found.as_strided(sizes, strides).detach()
        return found

    def _commit(
        self,
        values: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        states: Sequence[torch.Tensor],
    ) -> None:
        targets = [
            _stored(inputs[index] if is_input else states[index])
            for is_input, index in self._targets
        ]
        memory = {_memory(target) for target in targets}
        kept = [v.clone() if _memory(v) in memory else v for v in values]
        for target, value in zip(targets, kept, strict=True):
            target.copy_(value)


def _stored(tensor: torch.Tensor) -> torch.Tensor:
    """What the memory of a lazily conjugated or negated tensor holds."""
    if tensor.is_conj():
        tensor = torch._conj(tensor)
    return torch._neg_view(tensor) if tensor.is_neg() else tensor


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _no_autocast() -> Any:
    """Casts are part of the graph."""
    return torch.autocast("cpu", enabled=False)


def _is_same_number(found: Any, recorded: Any) -> bool:
    if isinstance(found, torch.Tensor):
        found = found.item()
    if isinstance(found, bool) and isinstance(recorded, float):
        found = float(found)  # What a comparison gave.
    if isinstance(recorded, float) and isinstance(found, float):
        return struct.pack("d", found) == struct.pack("d", recorded)
    if isinstance(recorded, complex) and isinstance(found, complex):
        return all(
            struct.pack("d", a) == struct.pack("d", b)
            for a, b in (
                (found.real, recorded.real),
                (found.imag, recorded.imag),
            )
        )
    return type(found) is type(recorded) and bool(found == recorded)
