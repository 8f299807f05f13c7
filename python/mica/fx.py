"""Programs as graphs of torch.fx: `mica.to_fx`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from mica.captured import record_of as described_call
from mica.programs.described import check_inputs
from mica.programs.graph_module import Builder
from mica.programs.program import Program
from mica.programs.records import Record, record_of


def to_fx(
    program: Program | Record | Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> GraphModule:
    """A captured Program as a graph of ATen calls.

    The graph's inputs are the Program's, in order: tensors, then numbers that
    vary. The Program's variables are the module's parameters and buffers: the
    tensors themselves, by the names of `state_dict()`. The module returns a
    tuple: of a record or a callable, the tensors of the call's result, each
    once, and the gradients that it leaves; of a Program, what that returns. It
    writes what the Program updates in place, at the end. Run without autograd,
    it does bit for bit what eager does, as long as that would go the same way:
    the module has no guards.

    Args:
      program: A Program, one of `mica.records`, or a callable, compiled or not;
        that is captured for `args`, which may call it.
      args: The positional arguments of a callable.
      kwargs: Those by keyword.
    Returns:
      The module; each node's meta has the user's line.
    Raises:
      CaptureError: The call can't be captured as one graph; says why.
      NotImplementedError: An op has no form in ATen, such as a branch; or an
        input or a state is lazily conjugated or negated.
      TypeError: `program` is a callable, and there are no arguments.
    """
    if isinstance(program, Program):
        return Builder(program.parts(), program.tensors).build()
    if not isinstance(program, Record):
        if args is None:
            raise TypeError("mica.to_fx: a callable wants arguments")
        described = described_call(
            program, tuple(args), dict(kwargs or {}), "mica.to_fx"
        )
        program = record_of(described, "")
    check_inputs({"lazy": program.lazy}, "mica.to_fx")
    return Builder(
        program.program.parts(),
        program.program.tensors,
        windows=program.windows,
    ).build()
