"""Programs from elsewhere as modules: what users call."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn


def from_onnx(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    folder: str | os.PathLike[str] | None = None,
) -> nn.Module:
    """Makes a module of an ONNX model.

    It takes the graph's inputs in their order, or by name, and returns its
    output; a tuple of several. `mica.compile`, `mica.capture` and `mica.export`
    take it as any module. Sizes of inputs that the file leaves open may be any;
    shapes that the graph computes are computed in Python.

    Args:
      model: A file, its contents, or an onnx.ModelProto.
      folder: Where to look for tensors that lie outside of `model`; by default
        the folder of the file.
    Returns:
      An OnnxModule in eval mode; its `dynamic_shapes` are the sizes that the
      file leaves open, as `mica.export` takes them.
    Raises:
      RuntimeError: The package onnx isn't installed.
      OSError: The file can't be read.
      ValueError: The file is damaged, or a tensor lies outside of the folder;
        names the file, the node or the tensor.
      NotImplementedError: Nothing here runs some nodes; names all of them.
    """
    # Late: the table of operators is long, and most programs don't need it.
    from mica.imported import model as models

    return models.from_onnx(model, folder=folder)


def from_exported(
    program: str | os.PathLike[str] | torch.export.ExportedProgram,
) -> nn.Module:
    """Makes a module of a program that torch.export wrote.

    It does what `torch.export.load(path).module()` does, its checks of
    arguments in plain Python, which capture follows.

    Args:
      program: A .pt2 file, or a torch.export.ExportedProgram.
    Returns:
      An ExportedModule; its `dynamic_shapes` are the sizes that are open, as
      `mica.export` takes them.
    Raises:
      OSError: The file can't be read.
      ValueError: It is no such archive, or damaged; names it.
      TypeError: It is neither a path nor a program.
    """
    from mica.imported import exported

    return exported.from_exported(program)
