"""Runs programs that `mica.export` wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from mica import _mica
from mica.options import default_num_streams, default_num_threads, default_queue
from mica.programs.program import Program
from mica.saved import calls, signature


class Loaded:
    """An exported program with state of its own, called as the original was.

    Results are nested as the original's; where that returned an object of a
    class, this returns a dict of its parts, and a plain tuple for a named one.
    What the program writes to its state stays in this object.

    Attributes:
      numbers: Numbers of the program's state that may vary, such as a learning
        rate, by the names of the Program's inputs; assign to its items.
    """

    def __init__(
        self,
        path: str,
        native: _mica.Program,
        variables: list[torch.Tensor],
        text: str,
        num_threads: int | None,
        frozen: bool,
    ) -> None:
        names = [name for name, _ in native.variables]
        self._path = path
        self._program = Program(
            native, dict(zip(names, variables, strict=True))
        )
        self._text = text
        self._signature = signature.parse(
            text, os.path.join(path, "signature.json")
        )
        threads = default_num_threads() if num_threads is None else num_threads
        self._executor = _mica.Executor(
            "cpu",
            threads,
            default_num_streams(),
            default_queue(),
            frozen,
            True,
        )
        self._input_names = [name for name, _ in native.inputs]
        numbers = self._signature["numbers"]
        self._number_nodes = {
            item["name"]: item["node"] for item in numbers if "node" in item
        }
        self.numbers: dict[str, float] = {
            item["name"]: item["value"]
            for item in numbers
            if "node" not in item
        }
        written_inputs = set(native.updated_inputs)
        self._written_inputs = [
            number
            for number, name in enumerate(self._input_names)
            if name in written_inputs
        ]
        self._written = native.updated_variables

    @property
    def program(self) -> Program:
        """The Program with its variables' tensors."""
        return self._program

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The state's tensors, by name; no copies."""
        return dict(self._program.tensors)

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copies values into the state.

        Args:
          state: A tensor for each name of `state_dict`.
        Raises:
          ValueError: A name is missing or unknown, or a tensor is of another
            shape or dtype; nothing was copied.
        """
        own = self._program.tensors
        for name in own.keys() - state.keys():
            raise ValueError(f"variable '{name}' is missing")
        for name, value in state.items():
            if name not in own:
                raise ValueError(f"there is no variable '{name}'")
            wanted = own[name]
            if value.shape != wanted.shape or value.dtype != wanted.dtype:
                raise ValueError(
                    f"variable '{name}': wants {wanted.dtype} "
                    f"{list(wanted.shape)}, got {value.dtype} "
                    f"{list(value.shape)}"
                )
        with torch.no_grad():
            for name, value in state.items():
                own[name].copy_(value)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes the program with its state as it is now.

        Args:
          path: The folder to write, as in `mica.export`.
        Raises:
          ValueError: The folder holds something else.
        """
        native = self._program._native
        tensors = self._program.tensors
        _mica.write_saved(
            os.fspath(path),
            native,
            [tensors[name] for name, _ in native.variables],
            signature.with_numbers(self._text, self.numbers),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program.

        Args:
          *args: As the original's.
          **kwargs: As the original's.
        Returns:
          What the original returns, see the class.
        Raises:
          TypeError: The arguments are nested differently.
          ValueError: A tensor or a constant isn't of the kind that the program
            was exported for; gives what was wanted and what came.
        """
        inputs, objects = calls.flatten(self._signature, args, kwargs)
        feeds = {
            name: value.detach()
            for name, value in zip(self._input_names, inputs, strict=False)
        }
        for name, value in self.numbers.items():
            feeds[name] = torch.tensor(value, dtype=torch.float64)
        for name, node in self._number_nodes.items():
            feeds[name] = torch.tensor(objects[node], dtype=torch.float64)
        tensors = self._program.tensors
        outputs = self._executor.run(self._program._native, feeds, tensors, [])
        for number in self._written_inputs:
            torch.autograd.graph.increment_version(inputs[number])
        for name in self._written:
            torch.autograd.graph.increment_version(tensors[name])
        return calls.rebuild(self._signature, outputs, inputs, tensors, objects)

    def __repr__(self) -> str:
        return f"<mica.Loaded {self._path}: {self._program!r}>"


def load(
    path: str | os.PathLike[str],
    *,
    num_threads: int | None = None,
    frozen: bool = False,
) -> Loaded:
    """Reads a program that `mica.export` wrote.

    Args:
      path: The folder.
      num_threads: Threads of one op; by default MICA_NUM_THREADS, or torch's
        setting.
      frozen: The state never changes, so that packed copies may be kept.
    Returns:
      A callable with the original's arguments and results.
    Raises:
      LookupError: A file is missing, or the Program names an operator that
        there is not.
      ValueError: A file is damaged, or the weights don't fit the Program;
        names file and variable, what was wanted and what came.
    """
    folder = os.fspath(path)
    native, variables, text = _mica.read_saved(folder)
    return Loaded(folder, native, variables, text, num_threads, frozen)
