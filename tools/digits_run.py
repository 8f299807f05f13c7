"""Training runs of the digits net: in Python, eager or by Mica, and mica_train.

All of them take the same batches in the same order and the same rates, from
the same weights on: what differs is who computes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import digits

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("MICA_BIN", ROOT / "build" / "bin"))
SEED = 1  # Of the order of samples.
WARM_UP_STEPS = 4

_ATTEMPTS = 6
_MASK = (1 << 64) - 1


def _mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


def epoch_order(seed: int, epoch: int, count: int) -> list[int]:
    """Returns mica_train's order of samples, tools/train/dataset.h's."""
    order = list(range(count))
    state = _mix(_mix(seed) ^ epoch)
    for i in range(count - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        other = _mix(state) % (i + 1)
        order[i], order[other] = order[other], order[i]
    return order


@dataclass
class History:
    """What a run leaves behind."""

    losses: list[float] = field(default_factory=list)  # By step, nats.
    accuracies: list[float] = field(default_factory=list)  # By epoch, 0..1.
    seconds: list[float] = field(default_factory=list)  # By epoch, of steps.


class Run:
    """A run in Python, epoch by epoch.

    Attributes:
      step: The training step; compiled, if Mica runs it.
      history: Since the last reset.
      warm_up_s: What the steps before the run took: they make the optimizer's
        state, and show Mica that the rate varies.
    """

    def __init__(
        self, data: digits.Digits, epochs: int, is_compiled: bool
    ) -> None:
        self._data = data
        self._epochs = epochs
        self.model = digits.make_net()
        self._start = {
            name: value.clone()
            for name, value in self.model.state_dict().items()
        }
        self._optimizer = digits.make_optimizer(self.model)
        self.step: Any = digits.make_step(self.model, self._optimizer)
        if is_compiled:
            import mica

            self.step = mica.compile(self.step)
        self.warm_up_s = self._warm_up()
        self.reset()

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in the data."""
        return len(self._data.train_labels) // digits.BATCH

    def reset(self) -> None:
        """Goes back to the first weights, with momentum zero."""
        self.model.load_state_dict(self._start)
        for state in self._optimizer.state.values():
            state["momentum_buffer"].zero_()
        self.history = History()

    def train_epoch(self) -> None:
        """Takes the steps of the next epoch, and tests."""
        epoch = len(self.history.accuracies)
        count = self.steps_per_epoch
        order = torch.tensor(
            epoch_order(SEED, epoch, len(self._data.train_labels))
        )
        losses = []
        start = time.perf_counter()
        for number in range(count):
            rows = order[number * digits.BATCH : (number + 1) * digits.BATCH]
            self._set_rate(
                digits.cosine_rate(epoch * count + number, self._epochs * count)
            )
            losses.append(
                self.step(
                    self._data.train_images[rows], self._data.train_labels[rows]
                )
            )
        self.history.seconds.append(time.perf_counter() - start)
        self.history.losses += [float(loss) for loss in losses]
        self.history.accuracies.append(self._test())

    def steps_per_s(self) -> list[float]:
        """Returns the rate of each epoch."""
        return [
            self.steps_per_epoch / seconds for seconds in self.history.seconds
        ]

    def export(self, folder: Path) -> None:
        """Writes what mica_train needs to repeat the run from its start on.

        Afterwards the run is reset.

        Args:
          folder: Gets the folders step/ and eval/, and the data as npy files.
        """
        import mica

        self.reset()
        self._set_rate(digits.RATE)
        images, labels = self._data.train_images, self._data.train_labels
        model = self.model
        batch = slice(0, digits.BATCH)
        mica.export(self.step, (images[batch], labels[batch]), folder / "step")

        def evaluate(images: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = model(images)
            return logits

        model.eval()
        with torch.no_grad():
            mica.export(evaluate, (images[batch],), folder / "eval")
        model.train()
        for name in (
            "train_images",
            "train_labels",
            "test_images",
            "test_labels",
        ):
            np.save(folder / f"{name}.npy", getattr(self._data, name).numpy())

    def _warm_up(self) -> float:
        batch = slice(0, digits.BATCH)
        start = time.perf_counter()
        for number in range(WARM_UP_STEPS):
            self._set_rate(digits.RATE / (1 + number))
            self.step(
                self._data.train_images[batch], self._data.train_labels[batch]
            )
        return time.perf_counter() - start

    def _set_rate(self, rate: float) -> None:
        self._optimizer.param_groups[0]["lr"] = rate

    def _test(self) -> float:
        self.model.eval()
        with torch.no_grad():
            classes = self.model(self._data.test_images).argmax(1)
        self.model.train()
        right = int((classes == self._data.test_labels).sum())
        return right / len(classes)


def command(folder: Path, epochs: int, **flags: object) -> list[str]:
    """Returns the command that repeats a run.

    Args:
      folder: What Run.export() filled.
      epochs: As the run's.
      **flags: More flags of mica_train.
    """

    def data(name: str) -> str:
        return ",".join(
            f"{kind}={folder / name}_{kind}.npy"
            for kind in ("images", "labels")
        )

    given: dict[str, object] = {
        "step": folder / "step",
        "eval": folder / "eval",
        "data": data("train"),
        "eval_data": data("test"),
        "epochs": epochs,
        "seed": SEED,
        "course": "cosine",
        **flags,
    }
    return [
        str(BIN / "mica_train"),
        *(f"--{name}={value}" for name, value in given.items()),
    ]


def mica_train(
    folder: Path, epochs: int, **flags: object
) -> list[dict[str, Any]]:
    """Repeats a run by mica_train; its progress goes to our own.

    Returns:
      The log's lines about epochs.
    """
    log = folder / "log.json"
    subprocess.run(
        command(folder, epochs, log=log, **flags),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if line["event"] == "epoch"]


def kill_at_random(
    command: list[str], checkpoint: Path, longest: float, chance: random.Random
) -> bool:
    """Runs mica_train until a kill -9.

    One in five is killed while it starts, the others after they have written a
    checkpoint.

    Args:
      command: Its command line.
      checkpoint: The file that --checkpoint names.
      longest: Seconds that it may go on for, at most.
      chance: Decides.

    Returns:
      False if it ended before.
    """

    def version() -> tuple[int, int] | None:
        try:
            found = checkpoint.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    before = version()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    if chance.random() < 0.8:
        while process.poll() is None and version() == before:
            time.sleep(0.001)
    time.sleep(chance.uniform(0, longest))
    process.kill()
    return process.wait() == -signal.SIGKILL


def train_with_kills(
    folder: Path, epochs: int, kills: int, run_s: float, weights: Path
) -> int:
    """Repeats a run by mica_train, killed at random times, until it ends.

    Args:
      folder: What Run.export() filled.
      epochs: As the run's.
      kills: How often to kill -9.
      run_s: How long a run takes that isn't killed.
      weights: Gets the weights of the last epoch.

    Returns:
      How many kills there were: fewer than `kills` if the run ended too soon,
      in each of several attempts with shorter and shorter parts.
    """
    chance = random.Random()
    longest = 2 * run_s / kills
    done = 0
    for _ in range(_ATTEMPTS):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            checkpoint = Path(scratch) / "checkpoint.safetensors"
            flags = {
                "checkpoint": checkpoint,
                "checkpoint_every": 1,
                "out_weights": weights,
            }
            parts = command(folder, epochs, **flags)
            done = 0
            while done < kills and kill_at_random(
                parts, checkpoint, longest, chance
            ):
                done += 1
            mica_train(folder, epochs, **flags)
        if done == kills:
            break
        longest /= 2
    return done
