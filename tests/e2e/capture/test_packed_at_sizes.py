"""Frozen weights at several sizes: packed once, and as they are now."""

import json

import pytest
import torch
from torch import nn

import mica


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))


def run_at(compiled, net, sizes):
    """Holds the compiled net to the net at batches of these sizes."""
    for size in sizes:
        x = torch.randn(size, 64)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), net(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_sizes_see_weights_that_were_written_since(dtype):
    torch.set_default_dtype(dtype)
    try:
        net = make_net()
        compiled = mica.compile(net, frozen=True)
        run_at(compiled, net, (8, 8, 16, 24, 8))
        for write in (
            lambda: net[0].weight.data.mul_(2),
            lambda: net[0].weight.data.add_(1),
            lambda: setattr(net[2].weight, "data", net[2].weight.data * 3),
        ):
            with torch.no_grad():
                write()
            # A new size, ones that packed before, and the recorded one.
            run_at(compiled, net, (32 + torch.randint(99, ()).item(), 16, 8))
            run_at(compiled, net, (24, 8, 16))
    finally:
        torch.set_default_dtype(torch.float32)


def test_other_sizes_pack_nothing_again(tmp_path):
    net = make_net()
    compiled = mica.compile(net, frozen=True)
    run_at(compiled, net, (8, 8, 16, 24))
    with mica.trace(tmp_path / "trace.json"):
        run_at(compiled, net, (40, 56))
    text = (tmp_path / "trace.json").read_text()
    spans = [
        event["args"]
        for event in json.loads(text)["traceEvents"]
        if event.get("name", "").startswith("bind @")
    ]
    assert len(spans) == 2
    for span in spans:
        assert span["packed"] >= 1
        assert span["shared"] == span["packed"]
