"""torch.utils.checkpoint in a watched run.

torch's own implementation of `use_reentrant=False` keeps its books in weak
references and behind switches of torch.compile's, none of which a record could
serve. A watched run calls `checkpoint` below in its place: what autograd saves
is thrown away and computed again when a backward pass wants it, as torch's
does. The operators that this runs are what is recorded; a hit runs no hook.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint as torchs

from mica import _mica
from mica.annotate import annotate

# As it is below the decorator by which Dynamo leaves it alone.
_TORCHS = torchs.checkpoint.__wrapped__  # type: ignore[attr-defined]
# Types of arguments in which torch's own looks for nothing.
_LEAVES = {torch.Tensor, torch.nn.Parameter, int, float, bool, str, type(None)}


class _EnoughError(Exception):
    """All that was saved is there again."""


@annotate(kind="pure")
def _version(tensor: torch.Tensor) -> int:
    """How often the tensor was written."""
    return tensor._version


class _Saved:
    """What autograd saved of one call: numbers, until a pass wants it."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        draws_alike: bool,
        ends_early: bool,
    ) -> None:
        self._function = function
        self._args, self._kwargs = args, kwargs
        self._ends_early = ends_early
        self._state = torch.get_rng_state() if draws_alike else None
        self._autocast: dict[str, Any] = {
            "enabled": torch.is_autocast_enabled("cpu"),
            "dtype": torch.get_autocast_dtype("cpu"),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        self._versions = [
            _version(arg) if isinstance(arg, torch.Tensor) else 0
            for arg in args
        ]
        self._forms: list[tuple[Any, ...]] = []
        # By backward pass.
        self._again: dict[int, list[torch.Tensor]] = {}

    def pack(self, tensor: torch.Tensor) -> int:
        """Keeps no more than which one it is."""
        self._forms.append((tensor.shape, tensor.dtype, tensor.device))
        return len(self._forms) - 1

    def unpack(self, number: int) -> torch.Tensor:
        """Returns it, computed again once for each pass."""
        task = torch._C._current_graph_task_id()
        if task not in self._again:
            self._again[task] = []
            self._compute_again(self._again[task])
        return self._again[task][number]

    def _compute_again(self, again: list[torch.Tensor]) -> None:
        def keep(tensor: torch.Tensor) -> torch.Tensor:
            if len(again) == len(self._forms):
                raise torchs.CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors "
                    "during recomputation than during the original forward "
                    "pass."
                )
            again.append(tensor.detach())
            if self._ends_early and len(again) == len(self._forms):
                raise _EnoughError
            return tensor

        self._check_versions()
        before = None
        if self._state is not None:
            before = torch.get_rng_state()
            torch.set_rng_state(self._state)
        try:
            with (
                torch.autograd.graph.saved_tensors_hooks(
                    keep, lambda kept: kept
                ),
                torch.enable_grad(),
                torch.autocast("cpu", **self._autocast),
                contextlib.suppress(_EnoughError),
            ):
                self._function(*self._args, **self._kwargs)
        finally:
            if before is not None:
                torch.set_rng_state(before)
        self._check_forms(again)

    def _check_versions(self) -> None:
        for arg, version in zip(self._args, self._versions, strict=True):
            if isinstance(arg, torch.Tensor) and _version(arg) != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has "
                    "been modified by an inplace operation: "
                    f"[{arg.type()} {list(arg.shape)}] is at version "
                    f"{_version(arg)}; expected version {version} instead."
                )

    def _check_forms(self, again: list[torch.Tensor]) -> None:
        if len(again) != len(self._forms):
            raise torchs.CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was "
                "saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self._forms)}\n"
                f"Number of tensors saved during recomputation: {len(again)}."
            )
        for tensor, form in zip(again, self._forms, strict=True):
            if (tensor.shape, tensor.dtype, tensor.device) != form:
                raise torchs.CheckpointError(
                    "torch.utils.checkpoint: Recomputed values for the "
                    "following tensors have different metadata than during "
                    "the forward pass."
                )


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Calls `function` as `torch.utils.checkpoint.checkpoint` does.

    Args:
      function: What is called, and called again by a backward pass.
      args: Of the function; tensors of any form.
      use_reentrant: As torch's; other kinds than False are torch's own, and so
        is what asks for contexts, checks or debugging of its own.
      kwargs: torch's options, and the function's.
    Returns:
      What the function returns.
    Raises:
      torch.utils.checkpoint.CheckpointError: The function saved other tensors
        when it was called again.
      RuntimeError: An argument was written in place before that.
    """
    options = {"context_fn", "determinism_check", "debug"}
    if (
        use_reentrant is not False
        or options & kwargs.keys()
        or torchs._checkpoint_debug_enabled is not None
    ):
        return _TORCHS(function, *args, use_reentrant=use_reentrant, **kwargs)
    if any(type(arg) not in _LEAVES for arg in args):
        # It walks containers, and may raise.
        torchs._infer_device_type(*args)  # type: ignore[no-untyped-call]
    draws_alike = kwargs.pop("preserve_rng_state", True)
    ends_early = kwargs.pop("early_stop", True)
    if torchs._enable_checkpoint_early_stop is not None:
        ends_early = torchs._enable_checkpoint_early_stop
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    if any(
        isinstance(arg, torch.Tensor) and arg.is_inference() for arg in args
    ):
        return _TORCHS(
            function, *args, use_reentrant=False, **kwargs
        )  # Raises.
    saved = _Saved(function, args, kwargs, draws_alike, ends_early)
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
        return function(*args, **kwargs)


_mica.call_in_place(torchs.checkpoint, checkpoint)
