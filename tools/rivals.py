"""The systems that tools/bench_models.py compares: how each is set up.

A system makes a call of a model and its inputs; what that takes is part of its
cold start. One that isn't installed, or can't do the model, raises.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import mica
from zoo_training import Step

Call = Callable[[], Any]


class UnavailableError(Exception):
    """A system that can't be measured here; says why."""


@dataclass
class Prepared:
    """A system with its model.

    Attributes:
      call: Runs the model once on the inputs and returns its results.
      compiled: What mica.compile made, for its figures.
    """

    call: Call
    compiled: Any = None


Prepare = Callable[[torch.nn.Module, tuple[Any, ...]], Prepared]
PrepareStep = Callable[[torch.nn.Module, Step, tuple[Any, ...]], Prepared]


def _need(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise UnavailableError(f"{name} is not installed")


def _eager(model: torch.nn.Module, args: tuple[Any, ...]) -> Prepared:
    return Prepared(lambda: model(*args))


def _mica(frozen: bool) -> Prepare:
    def prepare(model: torch.nn.Module, args: tuple[Any, ...]) -> Prepared:
        compiled: Any = mica.compile(model, frozen=frozen)
        return Prepared(lambda: compiled(*args), compiled)

    return prepare


def _inductor(model: torch.nn.Module, args: tuple[Any, ...]) -> Prepared:
    # Weights that don't change, as Mica's and the other systems' here.
    compiled = torch.compile(model, options={"freezing": True})
    return Prepared(lambda: compiled(*args))


def _openvino(model: torch.nn.Module, args: tuple[Any, ...]) -> Prepared:
    _need("openvino")
    openvino = importlib.import_module("openvino")
    # It takes models in float32, and computes in less where that is wished.
    parameter = next(model.parameters(), None)
    is_bfloat16 = parameter is not None and parameter.dtype == torch.bfloat16
    if is_bfloat16:
        model = copy.deepcopy(model).float()
        args = tuple(
            arg.float() if arg.is_floating_point() else arg for arg in args
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converted = openvino.convert_model(
            model, example_input=args if len(args) > 1 else args[0]
        )
    for index, arg in enumerate(args):
        converted.inputs[index].get_node().set_partial_shape(
            openvino.PartialShape(list(arg.shape))
        )
    converted.validate_nodes_and_infer_types()
    compiled = openvino.Core().compile_model(
        converted,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": "bf16" if is_bfloat16 else "f32",
            "NUM_STREAMS": 1,
        },
    )
    request = compiled.create_infer_request()
    feeds = [arg.numpy() for arg in args]
    return Prepared(lambda: request.infer(feeds))


def _onnx_runtime(model: torch.nn.Module, args: tuple[Any, ...]) -> Prepared:
    _need("onnxruntime", "onnxscript")
    runtime = importlib.import_module("onnxruntime")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(model, args, str(path), dynamo=True, verbose=False)
        session = runtime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    names = [feed.name for feed in session.get_inputs()]
    feeds = {name: arg.numpy() for name, arg in zip(names, args, strict=True)}
    return Prepared(lambda: session.run(None, feeds))


# By name, in the order of tables; eager first.
INFERENCE: dict[str, Prepare] = {
    "eager": _eager,
    "mica": _mica(frozen=True),
    "mica live": _mica(frozen=False),
    "inductor": _inductor,
    "openvino": _openvino,
    "onnxruntime": _onnx_runtime,
}


def _eager_step(
    model: torch.nn.Module, step: Step, batch: tuple[Any, ...]
) -> Prepared:
    del model
    return Prepared(lambda: step(*batch))


def _mica_step(
    model: torch.nn.Module, step: Step, batch: tuple[Any, ...]
) -> Prepared:
    del model
    compiled: Any = mica.compile(step)
    return Prepared(lambda: compiled(*batch), compiled)


def _inductor_step(
    model: torch.nn.Module, step: Step, batch: tuple[Any, ...]
) -> Prepared:
    model.compile()
    return Prepared(lambda: step(*batch))


def _no_training(
    model: torch.nn.Module, step: Step, batch: tuple[Any, ...]
) -> Prepared:
    raise UnavailableError("doesn't train")


TRAINING: dict[str, PrepareStep] = {
    "eager": _eager_step,
    "mica": _mica_step,
    "inductor": _inductor_step,
    "openvino": _no_training,
    "onnxruntime": _no_training,
}
