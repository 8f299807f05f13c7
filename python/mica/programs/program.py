"""Programs: static graphs as text, with the tensors they keep."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from mica import _mica


class Program:
    """A static graph of ops over typed values, and its variables' tensors.

    Made by `Program.parse`, `Program.load` or from a compiled callable. The
    graph is immutable; `str(program)` is its text form.
    """

    def __init__(
        self,
        native: _mica.Program,
        variables: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self._native = native
        self._variables: dict[str, torch.Tensor] = dict(variables or {})

    @classmethod
    def parse(
        cls, text: str, variables: Mapping[str, torch.Tensor] | None = None
    ) -> Program:
        """Reads the text form.

        Args:
          text: What `str(program)` gives; see docs/text_format.md.
          variables: A tensor for each variable, by name. They are used where
            they are, not copied.
        Returns:
          The Program.
        Raises:
          ValueError: The text is malformed or ill-typed; gives line and
            column, the op, what was wanted and what came.
          LookupError: The text names an operator that there is not.
        """
        return cls(_mica.Program.parse(text), variables)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        variables: Mapping[str, torch.Tensor] | None = None,
    ) -> Program:
        """Reads the text form from a file.

        Args:
          path: A file that `save` wrote.
          variables: As in `parse`.
        Returns:
          The Program.
        Raises:
          OSError: The file can't be read.
          ValueError: As `parse`, also for bytes that are not UTF-8.
          LookupError: As `parse`.
        """
        with open(path, encoding="utf-8") as file:
            return cls.parse(file.read(), variables)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the text form to a file, without the variables' tensors.

        Args:
          path: The file to write.
        Raises:
          OSError: The file can't be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(self))

    @property
    def name(self) -> str:
        """The name behind the "@"."""
        return self._native.name

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """Name and type, such as ("x", "f32[8,64]"), of each input."""
        return self._native.inputs

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Name and type of each value that the Program returns."""
        return self._native.outputs

    @property
    def variables(self) -> list[tuple[str, str]]:
        """Name and type of each variable."""
        return self._native.variables

    @property
    def updated_variables(self) -> list[str]:
        """The variables that a run writes."""
        return self._native.updated_variables

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The variables' tensors, by name; assign to it to set one."""
        return self._variables

    @property
    def num_ops(self) -> int:
        """How many ops the Program has."""
        return self._native.num_ops

    @property
    def op_counts(self) -> dict[str, int]:
        """How often each operator occurs."""
        return self._native.op_counts

    @property
    def opaque_ops(self) -> dict[str, int]:
        """How often each operator occurs that runs through ATen."""
        return self._native.opaque_ops

    def parts(self) -> dict[str, Any]:
        """The graph as plain data.

        Returns:
          A dict: `inputs`, `outputs` and `ops`, in order; `variables` as
          (value, name), `constants` as (value, type, bytes), `updates` as
          (target, value). An op is a dict of its name, arguments by
          parameter, results and their types, the user's line and the module
          that ran it; a value among its arguments is ("%", name), a dtype
          ("dtype", "f32").
        """
        return self._native.parts()

    def __str__(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return f"<mica.Program @{self.name}: {self.num_ops} ops>"
