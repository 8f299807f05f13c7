#!/usr/bin/env python3
"""What do int8 and int4 weights make of a model: its time, and its error?

BERT-base and GPT-2 with random weights by `mica.compile(precision=...)`, by
Mica in float32, by eager, by `torch.ao.quantization.quantize_dynamic` and by
OpenVINO with weights that NNCF compressed, in turn, one thread. Cosines are to
eager's results in float32.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from bench_common import (
    add_json_flag,
    interleave,
    ratios,
    spread,
    write_json,
)
from vision_operators import define_vision_operators

define_vision_operators()

import mica  # noqa: E402
import zoo  # noqa: E402

Call = Callable[[], torch.Tensor]

# Model, length of the sequence, and the precisions it is measured in.
CASES = {
    "bert": ("BERT-base", 128, ("int8", "int8-weights")),
    "gpt2-token": ("GPT-2", 1, ("int4-weights", "int8-weights")),
    "gpt2": ("GPT-2", 128, ("int4-weights",)),
}
# OpenVINO's weights in each, and of how many activations it quantises a group;
# 0 leaves them in float32. Of those that it takes 128 is its fastest here.
OPENVINO = {
    "int8": ("INT8_ASYM", 128),
    "int8-weights": ("INT8_ASYM", 0),
    "int4-weights": ("INT4_ASYM", 0),
}
LEAST_COSINE = {"int8": 0.999, "int8-weights": 0.999, "int4-weights": 0.99}
GROUP = 32


def first_of(result: Any) -> torch.Tensor:
    """Returns a model's first result."""
    return result[0]  # type: ignore[no-any-return]


def by_mica(model: Any, ids: torch.Tensor, precision: str | None) -> Call:
    """Returns a call of the model, compiled."""
    compiled = mica.compile(model, frozen=True, precision=precision)
    return lambda: first_of(compiled(ids))


def converted(model: torch.nn.Module, ids: torch.Tensor) -> Any:
    """Returns OpenVINO's form of a model, for the one size."""
    openvino: Any = importlib.import_module("openvino")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = openvino.convert_model(model, example_input=ids)
        except Exception:  # Not every model can be traced for it.
            return openvino.convert_model(
                torch.export.export(model, (ids,), strict=False)
            )
    made.inputs[0].get_node().set_partial_shape(
        openvino.PartialShape(list(ids.shape))
    )
    made.validate_nodes_and_infer_types()
    return made


def by_openvino(
    model: torch.nn.Module,
    ids: torch.Tensor,
    precision: str | None,
    is_static: bool = False,
) -> Call:
    """Returns a call of OpenVINO's. Raises ImportError where it isn't.

    If `is_static` NNCF quantises activations, too, by scales that it finds
    ahead.
    """
    openvino: Any = importlib.import_module("openvino")
    made = converted(model, ids)
    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    if is_static:
        nncf: Any = importlib.import_module("nncf")
        made = nncf.quantize(
            made,
            nncf.Dataset([ids.numpy()]),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=1,
        )
    elif precision is not None:
        nncf = importlib.import_module("nncf")
        mode, group = OPENVINO[precision]
        by_group = {"group_size": GROUP} if "4" in mode else {}
        made = nncf.compress_weights(
            made, mode=nncf.CompressWeightsMode[mode], **by_group
        )
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = group
    request = (
        openvino.Core().compile_model(made, "CPU", settings)
    ).create_infer_request()
    feeds = [ids.numpy()]
    return lambda: torch.from_numpy(request.infer(feeds)[0])


def by_eager_int8(model: torch.nn.Module, ids: torch.Tensor) -> Call:
    """Returns a call of torch.ao's dynamically quantised model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize: Any = torch.ao.quantization.quantize_dynamic
        made = quantize(copy.deepcopy(model), {torch.nn.Linear})
    return lambda: first_of(made(ids))


def systems_of(
    model: Any, ids: torch.Tensor, precision: str
) -> tuple[dict[str, Call], dict[str, str]]:
    """Returns the systems to compare, and why others are missing."""
    systems: dict[str, Call] = {
        "eager": lambda: first_of(model(ids)),
        "mica": by_mica(model, ids, None),
        f"mica {precision}": by_mica(model, ids, precision),
    }
    missing = {}
    rivals: dict[str, Callable[[], Call]] = {
        "openvino": lambda: by_openvino(model, ids, None),
        f"openvino {precision}": lambda: by_openvino(model, ids, precision),
    }
    if precision == "int8":
        rivals["openvino static"] = lambda: by_openvino(
            model, ids, precision, is_static=True
        )
        rivals["eager int8"] = lambda: by_eager_int8(model, ids)
    for name, make in rivals.items():
        try:
            systems[name] = make()
        except Exception as error:  # Whatever a rival can't do.
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return systems, missing


def cosine(result: torch.Tensor, want: torch.Tensor) -> float:
    """Returns that of the angle between them, as vectors."""
    a, b = result.flatten().double(), want.flatten().double()
    return float(a @ b / a.norm() / b.norm())


def measure(case: str, precision: str, rounds: int) -> dict[str, Any]:
    """Returns a case's figures."""
    name, length, _ = CASES[case]
    entry = next(entry for entry in zoo.ENTRIES if entry.name == name)
    model: Any = entry.make()
    if hasattr(model, "config"):
        model.config.return_dict = False
    (ids,), _ = entry.inputs("full", 1, length)
    with torch.no_grad():
        systems, missing = systems_of(model, ids, precision)
        want = first_of(model(ids))
        cosines = {}
        for system, call in systems.items():
            for _ in range(4):
                result = call()
            cosines[system] = round(cosine(result, want), 6)
        seconds = interleave(
            dict[str, Callable[[], object]](systems),
            rounds,
            1 if length > 1 else 4,
        )
    mine = seconds[f"mica {precision}"]
    return {
        "ms": {name: spread(took, 1e3) for name, took in seconds.items()},
        f"mica {precision} to": {
            name: spread(ratios(mine, took)) for name, took in seconds.items()
        },
        "cosine": cosines,
        "missing": missing,
    }


def main() -> None:
    """Runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--precisions", nargs="+", default=list(OPENVINO))
    parser.add_argument("--rounds", type=int, default=9)
    add_json_flag(parser)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    is_near = True
    for case in flags.cases:
        for precision in CASES[case][2]:
            if precision not in flags.precisions:
                continue
            found = measure(case, precision, flags.rounds)
            figures[f"{case} {precision}"] = found
            cosines = found["cosine"]
            is_near &= cosines[f"mica {precision}"] >= LEAST_COSINE[precision]
            print(f"{case} {precision}:", flush=True)
            for what, value in found.items():
                print(f"  {what}: {value}", flush=True)
    write_json(flags.json, figures)
    if not is_near:
        sys.exit("a cosine is below the bar")


if __name__ == "__main__":
    main()
