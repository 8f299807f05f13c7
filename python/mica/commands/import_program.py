"""`mica import`: writes an ONNX file or an archive of torch.export down."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch

from mica.imported.archives import is_archive
from mica.imported.opening import from_exported, from_onnx
from mica.saved.export import export
from mica.saved.load import load


def add_parser(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Adds the word to the command's parser."""
    parser = words.add_parser(
        "import",
        help="write an ONNX file or a .pt2 archive as mica.export does",
        description="Runs the program on arguments made of what the file "
        "declares (floats at random, ints zero), and writes it as a folder "
        "that mica.load, mica run and the tools take.",
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="an ONNX file, or an archive (.pt2)")
    add("--out", required=True, metavar="FOLDER", help="the folder to write")
    add(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="fixes a size that the file leaves open; may be repeated. The "
        "others stay open",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from mica.imported.examples import example_of

    sizes = _sizes(options.size)
    module: Any = _open(options.file)
    (args, kwargs), shapes = example_of(module, sizes)
    with torch.no_grad():
        try:
            export(
                module,
                args,
                options.out,
                kwargs=kwargs,
                modules={"": module},
                dynamic_shapes=shapes or None,
            )
        except NotImplementedError as error:
            if not shapes:
                raise
            print(f"all sizes are those of the example: {error}")
            export(
                module, args, options.out, kwargs=kwargs, modules={"": module}
            )
    program = load(options.out).program
    for title, values in (("in", program.inputs), ("out", program.outputs)):
        for name, kind in values:
            print(f"{title:3} {name}: {kind}")
    return 0


def _sizes(texts: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            raise ValueError(f"--size: wants NAME=N, got {text}")
        if name in sizes:
            raise ValueError(f"--size: {name} is given twice")
        sizes[name] = int(number)
    return sizes


def _open(file: str) -> Any:
    return from_exported(file) if is_archive(file) else from_onnx(file)
