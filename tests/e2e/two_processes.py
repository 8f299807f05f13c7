"""A model trained by DDP or FSDP, in two processes on gloo.

    python two_processes.py KIND OUT

KIND is ddp, fsdp, fully_shard, or spawn, which hands a compiled model to
another process. For plain and compiled models, and what is
compiled around the wrapper, OUT gets JSON: by way, the losses of the first
process, the hits of what was compiled, and the names in the state_dict.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import mica

STEPS = 6
WAYS = ("plain", "compiled", "around")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, a):
        return self.second(torch.relu(self.first(a)))


def wrap(net, kind):
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(net)
    if kind == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    return net


def train(kind, way, rank):
    torch.manual_seed(0)
    net = Net()
    inner = net = mica.compile(net) if way == "compiled" else net
    net = wrap(net, kind)
    if way == "around":
        inner = net = mica.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        seed = torch.Generator().manual_seed(step * 10 + rank)
        a = torch.randn(5, 8, generator=seed)
        optimizer.zero_grad()
        loss = (net(a) - a[:, :4]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    told = None if way == "plain" else mica.explain(inner)
    return {
        "losses": losses,
        "hits": told.hits if told else 0,
        "told": str(told),
        "names": list(net.state_dict()),
    }


def work(rank, kind, meeting, out):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=2
    )
    found = {way: train(kind, way, rank) for way in WAYS}
    if rank == 0:
        Path(out).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def run_there(rank, net, here, out):
    with torch.no_grad():
        for _ in range(3):
            there = net(torch.ones(2, 8)).tolist()
    found = {"here": here, "there": there, "hits": mica.explain(net).hits}
    Path(out).write_text(json.dumps(found))


def spawn(out):
    net = mica.compile(Net())
    with torch.no_grad():
        here = net(torch.ones(2, 8)).tolist()
    mp.spawn(run_there, args=(net, here, out), nprocs=1)


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        spawn(sys.argv[2])
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(
            work, args=(sys.argv[1], f"{folder}/meeting", sys.argv[2]), nprocs=2
        )
