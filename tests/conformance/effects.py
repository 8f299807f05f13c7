"""What a call did to memory: results, aliases, writes, version counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

tree = torch.utils._pytree


@dataclasses.dataclass
class Effects:
    """One call's results and what became of its arguments."""

    results: list[Any]  # Tensors, and whatever else it returned.
    structure: Any
    # Of each tensor that went in: whether its version counter moved.
    is_written: list[bool]
    arguments: list[torch.Tensor]
    # Of each tensor that came out: the argument that it is, or shares memory
    # with, and where its elements lie; -1 for none.
    same_as: list[int]
    shares_with: list[int]
    places: list[tuple[int, tuple[int, ...]]]

    def summary(self) -> str:
        """All but the tensors' contents."""
        types = [
            f"{x.dtype}{list(x.shape)}" if isinstance(x, torch.Tensor) else x
            for x in self.results
        ]
        return (
            f"{types}, written {self.is_written}, same {self.same_as}, shared "
            f"{self.shares_with}, at {self.places}"
        )


def copied(arguments: Any) -> Any:
    """The arguments with copies of all tensors, lying as they did.

    Those that share memory share it in the copy.
    """
    storages: dict[int, torch.UntypedStorage] = {}

    def copy_of(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = storage.clone()
        fresh = torch.empty(0, dtype=tensor.dtype)
        return fresh.set_(
            storages[storage._cdata],  # type: ignore[call-overload]
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
        )

    return tree.tree_map_only(torch.Tensor, copy_of, arguments)


def _index_of(items: list[Any], is_it: Callable[[Any], bool]) -> int:
    return next((i for i, item in enumerate(items) if is_it(item)), -1)


def effects_of(fn: Callable[..., Any], arguments: tuple[Any, ...]) -> Effects:
    """Calls `fn` and looks at what it did."""
    tensors = [
        leaf
        for leaf in tree.tree_leaves(arguments)
        if isinstance(leaf, torch.Tensor)
    ]
    before = [tensor._version for tensor in tensors]
    results, structure = tree.tree_flatten(fn(*arguments))
    same_as, shares_with, places = [], [], []
    for result in results:
        if not isinstance(result, torch.Tensor):
            continue
        storage = result.untyped_storage()._cdata
        same_as.append(_index_of(tensors, lambda x: x is result))  # noqa: B023
        shares_with.append(
            _index_of(
                tensors,
                lambda x: x.untyped_storage()._cdata == storage,  # noqa: B023
            )
        )
        places.append((result.storage_offset(), tuple(result.stride())))
    return Effects(
        results=results,
        structure=structure,
        is_written=[
            t._version != b for t, b in zip(tensors, before, strict=True)
        ],
        arguments=tensors,
        same_as=same_as,
        shares_with=shares_with,
        places=places,
    )
