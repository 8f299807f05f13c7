"""Models, exported and run without Python."""

import json

import numpy as np
import pytest
import torch
from e2e.model_checks import error, in_double
from e2e.test_export import BIN, tool
from safetensors.torch import load_file

import mica
import zoo
from vision_operators import define_vision_operators

_NAMES = (
    "BERT-base",
    "DistilBERT",
    "ALBERT",
    "GPT-2",
    "GPT-2 LM",
    "T5-small encoder",
    "ViT-B/16",
    "MLP-Mixer",
    "LSTM",
    "GRU",
    "ResNet-50",
    "MobileNetV2",
    "DenseNet-121",
    "EfficientNet-B0",
)
_PACKAGES = {"MLP-Mixer": "timm"}
_FLOOR = 2e-7  # Of errors; roundoff of a few numbers is luck.


@pytest.mark.skipif(
    not (BIN / "mica_run").exists(), reason="the tools are not built"
)
@pytest.mark.parametrize(("batch", "length"), [(1, 9), (4, 16)])
@pytest.mark.parametrize("name", _NAMES)
def test_exported_model_runs_without_python(name, batch, length, tmp_path):
    define_vision_operators()
    entry = next(e for e in zoo.ENTRIES if e.name == name)
    if entry.family == "vision":
        pytest.importorskip(_PACKAGES.get(name, "torchvision"))
    model = entry.make("small")
    args, _ = entry.inputs("small", batch, length)
    with torch.no_grad():
        mica.export(model, args, tmp_path / "model")
        eager = model(*args)
        exact = in_double(model, args, {})
    path = tmp_path / "model" / "program.mica"
    program = mica.Program.load(
        path, load_file(tmp_path / "model" / "weights.safetensors")
    )
    assert str(program) == path.read_text()
    assert not program.opaque_ops
    feeds = []
    for (feed, _), arg in zip(program.inputs, args, strict=True):
        np.save(tmp_path / f"{feed}.npy", arg.numpy())
        feeds.append(f"--feed={feed}={tmp_path / feed}.npy")
    done = tool(
        "mica_run",
        f"--program={tmp_path / 'model'}",
        *feeds,
        f"--out={tmp_path / 'out.safetensors'}",
    )
    assert done.returncode == 0, done.stderr
    outputs = load_file(tmp_path / "out.safetensors")
    memory = [outputs[output] for output, _ in program.outputs]
    signature = json.loads((tmp_path / "model" / "signature.json").read_text())
    got = [
        memory[node["index"]].as_strided(*node["window"])
        for node in signature["results"]
        if node["kind"] == "tensor"
    ]
    assert error(got, exact) <= max(2 * error(eager, exact), _FLOOR)
