"""The small convolutional net on scikit-learn's digits.

Shared by the quickstart, benchmarks and tests: data, model, training step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn import functional

BATCH = 32
RATE = 0.1
MOMENTUM = 0.9
TEST_SHARE = 4  # One image of so many is kept for the test.

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Digits:
    """The split data: images f32[n,1,8,8] in 0..1, labels i64[n]."""

    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


class DigitsNet(torch.nn.Module):
    """Two convolutions with batch norm, one pooling, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = torch.nn.BatchNorm2d(16)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = torch.nn.BatchNorm2d(32)
        self.fc1 = torch.nn.Linear(32 * 4 * 4, 64)
        self.fc2 = torch.nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Classifies images.

        Args:
          images: f32[batch,1,8,8], between 0 and 1.

        Returns:
          f32[batch,10], unnormalised log-probabilities.
        """
        x = functional.relu(self.norm1(self.conv1(images)))
        x = functional.relu(self.norm2(self.conv2(x)))
        x = functional.max_pool2d(x, 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        logits: torch.Tensor = self.fc2(x)
        return logits


def load(seed: int = 0) -> Digits:
    """Returns the 1,797 images, split at random by `seed`."""
    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    images = torch.from_numpy(data.images[order] / 16).float().unsqueeze(1)
    labels = torch.from_numpy(data.target[order]).long()
    cut = len(order) // TEST_SHARE
    return Digits(images[cut:], labels[cut:], images[:cut], labels[:cut])


def make_net(seed: int = 0) -> DigitsNet:
    """Returns a new net with weights by `seed`, in training mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return DigitsNet()


def make_optimizer(model: torch.nn.Module) -> torch.optim.SGD:
    """Returns SGD with momentum over the model's parameters."""
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)


def make_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    """Returns the training step.

    Args:
      model: In training mode.
      optimizer: Over its parameters.

    Returns:
      A function of images f32[batch,1,8,8] and labels i64[batch] that changes
      the model and returns the batch's loss, f32[], in nats a sample.
    """

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return train_step


def cosine_rate(step: int, steps: int, warmup: int = 0) -> float:
    """The learning rate of step `step` of `steps`, as mica_train's cosine."""
    if step < warmup:
        return RATE * (step + 1) / warmup
    share = (step - warmup) / max(1, steps - warmup)
    return RATE * 0.5 * (1 + math.cos(math.pi * share))
