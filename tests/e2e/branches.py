"""What has parts that can run beside each other, a model and a Program."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

import mica

# Rows of 256 would be packed into scratch memory, which cumsum then takes: one
# branch would wait for the other.
PROGRAM = """program @f(%x: f32[320,320]) {
  %a = aten.mm(%x, %x) : f32[320,320]
  %b = aten.mm(%x, %a) : f32[320,320]
  %c = aten.cumsum(%x, 1) : f32[320,320]
  %e = aten.cumsum(%c, 0) : f32[320,320]
  %d = aten.add.Tensor(%b, %e) : f32[320,320]
  return %d
}
"""


class Branches(nn.Module):
    """Four branches over one image, as an Inception block has them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, size, padding=size // 2),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, channels, 3, padding=1),
            )
            for size in (1, 3, 5, 7)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def assert_a_fork_is_told(executor: mica.Executor) -> None:
    """The threads of an executor that has run aren't there in a fork of it."""
    program = mica.Program.parse(PROGRAM)
    x = torch.randn(320, 320)
    executor.run(program, {"x": x})
    child = os.fork()
    if child == 0:
        try:
            executor.run(program, {"x": x})
            os._exit(1)
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
