"""mica_train on an exported step, as a user calls it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mica
from digits_run import epoch_order, kill_at_random

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MICA_BIN", ROOT / "build" / "bin"))
# Kills of the run that has to end as one that wasn't killed.
KILLS = 10
BATCH = 8

pytestmark = pytest.mark.skipif(
    not (BIN / "mica_train").exists(), reason="the tools are not built"
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Softmax regression with momentum, gradients by hand, and its data."""
    folder = tmp_path_factory.mktemp("train")
    weight, bias = torch.zeros(4, 3), torch.zeros(3)
    momentum = torch.zeros(4, 3)

    def step(
        images: torch.Tensor, labels: torch.Tensor, rate: torch.Tensor
    ) -> torch.Tensor:
        chosen = torch.softmax(images @ weight + bias, 1)
        hot = (labels.unsqueeze(1) == torch.arange(3)).float()
        off = (chosen - hot) / BATCH
        momentum.mul_(0.9).add_(images.t() @ off)
        weight.sub_(momentum * rate)
        bias.sub_(off.sum(0) * rate)
        return -(torch.log(chosen) * hot).sum() / BATCH

    def evaluate(images: torch.Tensor) -> torch.Tensor:
        return images @ weight + bias

    images, labels = torch.zeros(BATCH, 4), torch.zeros(BATCH).long()
    compiled = mica.compile(step)
    with torch.no_grad():
        compiled(images, labels, torch.tensor(0.1))
        for tensor in (weight, bias, momentum):
            tensor.zero_()
        mica.export(
            compiled, (images, labels, torch.tensor(0.1)), folder / "step"
        )
        mica.export(evaluate, (images,), folder / "eval")
    random_numbers = np.random.default_rng(0)
    centers = random_numbers.normal(size=(3, 4)) * 2
    for name, count in (("train", 200), ("test", 60)):
        label = random_numbers.integers(0, 3, count)
        image = centers[label] + random_numbers.normal(size=(count, 4))
        np.save(folder / f"{name}_images.npy", image.astype(np.float32))
        np.save(folder / f"{name}_labels.npy", label)
    return folder


def command(work: Path, **flags: object) -> list[str]:
    def data(name: str) -> str:
        fields = ("images", "labels")
        return ",".join(f"{f}={work}/{name}_{f}.npy" for f in fields)

    given = {
        "step": work / "step",
        "eval": work / "eval",
        "data": data("train"),
        "eval_data": data("test"),
        "rate": 0.1,
        **flags,
    }
    return [
        str(BIN / "mica_train"),
        *(f"--{key}={value}" for key, value in given.items() if value != ""),
    ]


def train(work: Path, **flags: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(work, **flags),
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin"},
    )


def log_of(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("steps_per_s", None)
    return lines


def test_it_learns_and_writes_what_python_loads(
    work: Path, tmp_path: Path
) -> None:
    done = train(
        work,
        epochs=5,
        course="cosine",
        warmup_steps=10,
        log=tmp_path / "log",
        out_eval=tmp_path / "trained",
        out_weights=tmp_path / "weights",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 5
    lines = log_of(tmp_path / "log")
    assert [line["event"] for line in lines] == ["start"] + ["epoch"] * 5
    assert lines[-1]["step"] == 125
    assert lines[-1]["accuracy"] >= 0.8
    trained = mica.load(tmp_path / "trained")
    images = torch.from_numpy(np.load(work / "test_images.npy"))
    labels = torch.from_numpy(np.load(work / "test_labels.npy"))
    right = sum(
        int((trained(part).argmax(1) == label).sum())
        for part, label in zip(
            images[:56].split(BATCH), labels[:56].split(BATCH), strict=True
        )
    )
    wrong = 60 - round(60 * lines[-1]["accuracy"])
    assert 56 - wrong <= right <= 60 - wrong
    weights = load_file(tmp_path / "weights")
    assert torch.equal(weights["weight"], trained.state_dict()["weight"])


def test_it_traces_the_first_steps(work: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    done = train(work, trace=path, trace_steps=3)
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())["traceEvents"]
    runs = [event for event in events if event.get("cat") == "run"]
    assert sum(run["name"].startswith("run @") for run in runs) == 3
    assert any(event.get("cat") == "analysis" for event in events)


def test_it_steps_as_python_does(work: Path, tmp_path: Path) -> None:
    """One epoch of mica_train, with its order of samples, by mica.load."""
    flags = dict(rate=0.05, seed=5, out_weights=tmp_path / "weights")
    assert train(work, **flags).returncode == 0
    step = mica.load(work / "step", num_threads=1)
    images = torch.from_numpy(np.load(work / "train_images.npy"))
    labels = torch.from_numpy(np.load(work / "train_labels.npy"))
    order = torch.tensor(epoch_order(5, 0, 200))
    for rows in order.split(BATCH):
        step(images[rows], labels[rows], torch.tensor(0.05))
    for name, value in load_file(tmp_path / "weights").items():
        assert torch.equal(step.state_dict()[name], value), name


def test_interrupted_it_saves_and_goes_on_to_the_same_weights(
    work: Path, tmp_path: Path
) -> None:
    flags: dict[str, Any] = dict(epochs=20_000, eval="", eval_data="")
    flags |= dict(checkpoint=tmp_path / "checkpoint", log=tmp_path / "log")
    process = subprocess.Popen(
        command(work, **flags), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()  # The first epoch is done.
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    assert "the same command goes on" in rest
    steps = int(rest.rsplit("after step ", 1)[1].split(";")[0])
    epochs = steps // 25 + 2
    flags |= dict(epochs=epochs)
    done = train(work, **flags, out_weights=tmp_path / "parts")
    assert done.returncode == 0, done.stderr
    assert f"goes on after step {steps}" in done.stdout
    flags |= dict(checkpoint="", log=tmp_path / "whole.log")
    done = train(work, **flags, out_weights=tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    whole = (tmp_path / "whole").read_bytes()
    assert (tmp_path / "parts").read_bytes() == whole
    parts = log_of(tmp_path / "log")
    assert parts[1:] == log_of(tmp_path / "whole.log")[1:]


def test_killed_ten_times_it_ends_with_the_same_weights(
    work: Path, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    flags: dict[str, Any] = dict(course="cosine", checkpoint_every=1)
    flags |= dict(eval="", eval_data="")

    flags |= dict(log=tmp_path / "log", out_weights=tmp_path / "parts")
    flags |= dict(checkpoint=tmp_path / "checkpoint")
    epochs, kills = 50, 0
    while kills < KILLS:
        flags |= dict(epochs=epochs)
        (tmp_path / "checkpoint").unlink(missing_ok=True)
        kills = 0
        while kills < KILLS and kill_at_random(
            command(work, **flags), tmp_path / "checkpoint", 0.02, chance
        ):
            kills += 1
        epochs *= 2  # It ended before.
    done = train(work, **flags)
    assert done.returncode == 0, done.stderr
    assert "goes on after step" in done.stdout
    assert not list(tmp_path.glob("*.tmp"))

    flags |= dict(checkpoint="", checkpoint_every=0)
    flags |= dict(out_weights=tmp_path / "whole", log=tmp_path / "whole.log")
    done = train(work, **flags)
    assert done.returncode == 0, done.stderr
    whole = (tmp_path / "whole").read_bytes()
    assert (tmp_path / "parts").read_bytes() == whole
    assert log_of(tmp_path / "log") == log_of(tmp_path / "whole.log")


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (dict(step=""), 2, "wants --step"),
        (dict(data=""), 2, "wants --data"),
        (dict(epochs=0), 2, "--epochs"),
        (dict(epochs="many"), 2, "epochs"),
        (dict(course="wavy"), 2, "--course: wants constant or cosine"),
        (dict(checkpoint_every=3), 2, "wants --checkpoint too"),
        (dict(step="/nowhere"), 1, "/nowhere/program.mica"),
        (dict(data="images=/nowhere.npy"), 1, "/nowhere.npy"),
        (dict(data="/nowhere.safetensors"), 1, "/nowhere.safetensors"),
        (dict(batch_size=9), 1, "was exported for 8"),
        (dict(rate_input="speed"), 1, "no input speed"),
        (dict(label="classes"), 1, 'wants "classes"'),
        (dict(rate=1e38), 1, "the loss is (nan|inf|-inf) in step"),
        (dict(log="/nowhere/log"), 1, "/nowhere/log"),
        (dict(checkpoint="/nowhere/c"), 1, "/nowhere/c"),
    ],
)
def test_bad_input_is_told_in_one_line(
    work: Path, flags: dict[str, Any], status: int, message: str
) -> None:
    done = train(work, **flags)
    assert done.returncode == status, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert re.search(message, done.stderr), done.stderr


def test_a_damaged_checkpoint_is_told(work: Path, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert train(work, checkpoint=path).returncode == 0
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    done = train(work, checkpoint=path)
    assert done.returncode == 1
    assert f"{path}: " in done.stderr
    assert path.read_bytes() == data[: len(data) // 2]
