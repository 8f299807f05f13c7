"""What a world has if its texts name it: modules, objects, functions."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z_]\w*")

BLOCKS = {
    "LIN": "LIN = nn.Linear(HID, HID).to(DT)\n",
    "UP": "UP = nn.Linear(HID, 3 * HID).to(DT)\n",
    "LN": "LN = nn.LayerNorm(HID).to(DT)\n",
    "GRU": "GRU = nn.GRU(HID, HID, batch_first=True).to(DT)\n",
    "LSTM": "LSTM = nn.LSTM(HID, HID, batch_first=True).to(DT)\n",
    "BILSTM": "BILSTM = nn.LSTM(HID, 3, 2, bidirectional=True).to(DT)\n",
    "MHA": "MHA = nn.MultiheadAttention(HID, 2, batch_first=True).to(DT)\n",
    "ENC": "ENC = nn.TransformerEncoderLayer(HID, 2, 8, 0.0, "
    "batch_first=True).to(DT)\n",
    "ENCE": "ENCE = nn.TransformerEncoderLayer(HID, 2, 8, batch_first=True)"
    ".to(DT).eval()\n",
    "CONV": "CONV = nn.Conv1d(HID, HID, 3, padding=1).to(DT)\n",
    "CONVS": "CONVS = nn.Conv1d(HID, 3, 2, stride=2).to(DT)\n",
    "CONVT": "CONVT = nn.ConvTranspose1d(HID, 3, 2, stride=2).to(DT)\n",
    "CONV2": "CONV2 = nn.Conv2d(HID, 3, 3, padding=1).to(DT)\n",
    "CONV2S": "CONV2S = nn.Conv2d(HID, 3, 2, stride=2).to(DT)\n",
    "BN": "BN = nn.BatchNorm1d(HID).to(DT)\n",
    "BNE": "BNE = nn.BatchNorm1d(HID).to(DT).eval()\n",
    "BN2": "BN2 = nn.BatchNorm2d(HID).to(DT)\n",
    "GN": "GN = nn.GroupNorm(2, HID).to(DT)\n",
    "IN": "IN = nn.InstanceNorm1d(HID).to(DT)\n",
    "DROP": "DROP = nn.Dropout(0.5).eval()\n",
    "EMB": "EMB = nn.Embedding(64, HID).to(DT)\n",
    "POS": "POS = nn.Parameter(torch.randn(64, HID).to(DT))\n",
    "W": "W = nn.Parameter(torch.randn(HID, HID).to(DT))\n",
    "MASK": "MASK = torch.tril(torch.ones(64, 64)).to(DT)\n",
    "ADA": "ADA = nn.AdaptiveAvgPool1d(3)\n",
    "CFG": """\
class Config:
    pass
CFG = Config()
CFG.k = 3
CFG.n = 2
CFG.last = None
CFG.sizes = {}
CFG.seen = []
""",
    "GK": "GK = 3\n",
    "TABLE": "TABLE = [1.0, 2.0, 3.0, 0.5, 4.0]\n",
    "NAMED": "NAMED = {2: 1.5, 3: 2.5, 4: 0.5, 5: 3.5, 8: -1.0}\n",
    "Shape": 'Shape = collections.namedtuple("Shape", "a b")\n',
    "Box": """\
class Box:
    def __init__(self, shape):
        self.first, self.last = shape[0], shape[-1]
    @property
    def half(self):
        return self.last // 2
    def __len__(self):
        return self.first
    def __index__(self):
        return self.last
""",
    "Spec": """\
@dataclasses.dataclass
class Spec:
    n: int = 2
    m: int = 3
    def area(self):
        return self.n * self.m
""",
    "mask_of": """\
@functools.lru_cache(maxsize=None)
def mask_of(n):
    return torch.tril(torch.ones(n, n)).to(DT)
""",
    "half_of": """\
@functools.lru_cache(maxsize=4)
def half_of(n):
    return n // 2
""",
    "padded": """\
def padded(v, m):
    n = v.shape[-1]
    short = (m - n % m) % m
    return F.pad(v, (0, short)), n
""",
    "heads": """\
def heads(v, h):
    b, s, d = v.shape
    return v.view(b, s, h, d // h).transpose(1, 2)
""",
    "windows": """\
def windows(v, w):
    b, s, d = v.shape
    v = F.pad(v, (0, 0, 0, -s % w))
    return v.view(b, -1, w, d).flatten(0, 1)
""",
    "Rotary": """\
class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.table = None
    def forward(self, v):
        n = v.shape[1]
        if self.table is None or n > self.n:
            t = torch.arange(n).to(DT)
            self.table, self.n = torch.cos(t)[:, None], n
        return v * self.table[:n].view(-1, *[1] * (v.dim() - 2))
""",
    "ROT": "ROT = Rotary()\n",
    "Cache": """\
class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(64, HID).to(DT))
        self.used = 0
    def forward(self, v):
        n = v.shape[-2]
        with torch.no_grad():
            self.kept[:n] = v.reshape(-1, HID)[:n]
        self.used = n
        return self.kept[:n] * 2
""",
    "CACHE": "CACHE = Cache()\n",
    "Meter": """\
class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros((), dtype=DT))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.calls = 0
    def forward(self, v):
        with torch.no_grad():
            self.total += v.sum()
            self.count += v.numel()
        self.calls += 1
        return v / v.numel() + self.total / self.count
""",
    "METER": "METER = Meter()\n",
    "Mixer": """\
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(HID, 4), nn.Linear(4, HID)
        self.groups = 2
    def forward(self, v):
        shape = v.shape
        v = self.b(F.gelu(self.a(v.reshape(-1, shape[-1]))))
        return v.reshape(shape) / math.sqrt(shape[-2])
""",
    "MIX": "MIX = Mixer().to(DT)\n",
}


def blocks_of(texts: Iterable[str]) -> dict[str, str]:
    """The blocks that texts name, and those that they name, in order."""
    wanted: set[str] = set()
    waiting = list(texts)
    while waiting:
        for name in set(_NAME.findall(waiting.pop())):
            if name in BLOCKS and name not in wanted:
                wanted.add(name)
                waiting.append(BLOCKS[name])
    return {name: text for name, text in BLOCKS.items() if name in wanted}
