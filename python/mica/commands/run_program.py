"""`mica run`: runs a saved Program on tensors from files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mica import _mica
from mica.programs.executor import Executor
from mica.programs.program import Program
from mica.programs.tensor_types import DTYPES

_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def add_parser(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Adds the word to the command's parser."""
    parser = words.add_parser(
        "run", help="run a saved or exported Program, as mica_run does"
    )
    add = parser.add_argument
    add("program", metavar="PROGRAM", help="a .mica file or exported folder")
    add(
        "--weights",
        help="safetensors file with the variables, by name; an exported "
        "folder has its own",
    )
    add(
        "--feed",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an input from a npy file; may be repeated",
    )
    add("--feeds", help="safetensors file with inputs, by name")
    add("--fetch", default="", help="values to compute, such as y,h")
    add("--out", help="writes the results to this safetensors file")
    add("--out-dir", help="writes the results to npy files in this folder")
    add("--out-weights", help="writes the variables after the run to this file")
    add("--threads", type=int, default=None, help="threads for the run")
    add(
        "--no-fuse",
        action="store_true",
        help="leave ops as they are instead of merging them",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    files = _named_files(options.feed)
    program = _read_program(options)
    feeds = _read_feeds(files, options.feeds, dict(program.inputs))
    executor = Executor(num_threads=options.threads, fuse=not options.no_fuse)
    names = [name for name in options.fetch.split(",") if name]
    results = executor.run(program, feeds, names or None)
    names = names or [name for name, _ in program.outputs]
    named = dict(zip(names, results, strict=True))
    if options.out:
        _write_safetensors(options.out, named)
    if options.out_dir:
        os.makedirs(options.out_dir, exist_ok=True)
        for name, result in named.items():
            file = os.path.join(options.out_dir, f"{name}.npy")
            np.save(file, result.numpy())
    if options.out_weights:
        _write_safetensors(options.out_weights, program.tensors)
    for name, result in named.items():
        print(f"{name}: {_describe(result)}")
    return 0


def _read_program(options: argparse.Namespace) -> Program:
    if not os.path.isdir(options.program):
        given = _read_safetensors(options.weights) if options.weights else {}
        program = Program.load(options.program)
    else:
        native, tensors, _ = _mica.read_saved(options.program)
        names = [name for name, _ in native.variables]
        given = dict(zip(names, tensors, strict=True))
        if options.weights:
            given = _read_safetensors(options.weights)
        program = Program(native)
    for name, _ in program.variables:
        if name not in given:
            raise LookupError(f'variable "{name}" has no value: --weights')
        program.tensors[name] = given[name]
    return program


def _named_files(texts: Sequence[str]) -> dict[str, str]:
    files: dict[str, str] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not name or not file:
            raise ValueError(f"--feed: wants NAME=FILE, got {text}")
        if name in files:
            raise ValueError(f"--feed: {name} is given twice")
        files[name] = file
    return files


def _read_feeds(
    files: Mapping[str, str], more: str | None, types: Mapping[str, str]
) -> dict[str, Any]:
    feeds: dict[str, Any] = {
        name: torch.from_numpy(np.load(file, allow_pickle=False))
        for name, file in files.items()
    }
    for name, value in (_read_safetensors(more) if more else {}).items():
        if name in feeds:
            raise ValueError(f"{more}: {name} is given twice")
        feeds[name] = value
    for name, value in feeds.items():
        # Files hold tensors: of a host scalar, one without dims.
        if "[" not in types.get(name, "[") and value.dim() == 0:
            feeds[name] = value.item()
    return feeds


def _describe(result: torch.Tensor) -> str:
    """Such as "f32[2,3] min=0 mean=0.5 max=1"."""
    sizes = ",".join(map(str, result.shape))
    text = f"{_DTYPE_NAMES[result.dtype]}[{sizes}]"
    if result.numel() == 0 or result.is_complex():
        return text
    numbers = result.to(torch.float64)
    least, mean, most = numbers.min(), numbers.mean(), numbers.max()
    return f"{text} min={least:.6g} mean={mean:.6g} max={most:.6g}"


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise RuntimeError(
            "safetensors files need the package safetensors"
        ) from error
    return safetensors.torch


def _read_safetensors(file: str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = _safetensors().load_file(file)
    return found


def _write_safetensors(file: str, tensors: Mapping[str, torch.Tensor]) -> None:
    kept = {name: value.contiguous() for name, value in tensors.items()}
    _safetensors().save_file(kept, file)
