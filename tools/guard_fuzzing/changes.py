"""What may be done to what is at a place, by its type.

`{p}` is the place's expression, `{a}` the same where it is set, `{o}` another
place's.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import logging
import random
import types
import weakref
from typing import Any

import numpy
import torch

TENSOR = """\
with torch.no_grad(): {p}.add_(1)
with torch.no_grad(): {p}.mul_(-1)
with torch.no_grad(): {p}.zero_()
with torch.no_grad(): {p}[..., 0] = 5
with torch.no_grad(): {p}.fill_(float('nan'))
with torch.no_grad(): {p}[..., -1:] = 0
with torch.inference_mode(): {p}.view(-1)[-2:] = 5
with torch.inference_mode(): {p}.view(-1)[{p}.numel() // 3] = 5
with torch.inference_mode(): {p}.mul_(2)
with torch.inference_mode(): {p}[0] = 5
{p}.data.mul_(2)
{p}.data = torch.full_like({p}.data, 3.0)
{p}.data = {p}.data.double()
{p}.data = torch.ones(2, 3)
{p}.numpy()[...] = 4
{p}.requires_grad_(not {p}.requires_grad)
{p}.__class__ = Loud
{p}.__class__ = torch.Tensor
{p}.grad = torch.ones_like({p})
{p}.grad = None
{p}.grad = {o}.grad
{p}.tag = 1.0
del {p}.tag
{p}.register_hook(lambda g: g * 2)
{p}.retain_grad()
{p}.detach_()
{p}.resize_(min({p}.numel(), 2))
{p}.t_()
{p}.unsqueeze_(0)
{p}.squeeze_()
{p}.set_({p}.detach().clone())
{p}.swap = {p}
torch.utils.swap_tensors({p}, torch.ones(3))
{a} = {p}.clone()
{a} = {p}.detach().clone().requires_grad_({p}.requires_grad)
{a} = {p}.double()
{a} = {p}.detach().requires_grad_()
{a} = nn.Parameter({p}.detach().clone())
{a} = {p}.detach().clone().as_subclass(Loud)
{a} = {p}[None]
{a} = {p}.detach().view(-1)
{a} = torch.stack([{p}, {p}], -1)[..., 0]
{a} = {p}.detach().to(torch.bfloat16)
{a} = torch.complex({p}.detach(), {p}.detach()).conj()
{a} = {p}.detach().imag if {p}.is_complex() else {p}.detach()
{a} = torch._neg_view({p}.detach())
{a} = {p}.detach().numpy()
{a} = 2.0
{a} = {o}
{a} = torch.ones(3)
{a} = torch.inference_mode()(torch.ones)(3)
{a} = {p}.expand(2, *{p}.shape)
{a} = {p}.detach().to_sparse()
{a} = torch.ones(3, device='meta')
{a} = torch.ones(6)[::2]
{a} = torch.tensor([1, 2, 3])
{a} = {p}.clone().detach_()
{a} = {p}.detach().numpy().copy()
{a} = torch.from_numpy({p}.detach().numpy())
{a} = {p}.data
{a} = {p}.detach()[:2]
{a} = {p}.view_as({p})
{a} = {p}.detach().conj()
{a} = {p}.t() if {p}.dim() == 2 else {p}.flip(0)
{a} = {p}.detach().half()
{a} = {p} * 1
{a} = torch.empty(0)
{a} = torch.tensor(3.0)
{a} = torch.full((3,), -0.0)
{a} = torch.tensor([float('inf'), 1.0, 2.0])
{a} = {o}.detach()
{a} = {o}.view(-1)[1:]
{p}.data = {o}.data
{p}.data = {p}.data.clone()
{p}.data = {p}.data[:2]
{p}.grad = {p}.detach().clone()
{p}.grad = torch.zeros(3)
{p}.grad.add_(1)
{p}.grad.data.fill_(2)
{p}.names = None
{p}.requires_grad = True
{p}.requires_grad = False
{p}.swapaxes_(0, -1)
{p}.as_strided_((2,), (0,))
{p}.copy_(torch.tensor([3.0, 2.0, 1.0]))
{p}.detach().copy_({o}.detach())
{p}.detach().resize_(min({p}.numel(), 2))
{p}.untyped_storage().fill_(0)
{p}.untyped_storage().resize_(4096)
{p}.share_memory_()
{p}.backward(torch.ones_like({p}))
{p}.tag = {o}
{p}.__dict__['gain'] = 2.0
{p}.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(2))
{p}._backward_hooks.clear()
{p}.sum = lambda *a, **k: torch.tensor(1.0)
{p}.item = lambda: 5.0""".splitlines()
OBJECT = """\
{p}.__class__ = A
{p}.__class__ = B
{p}.__class__ = C
{p}.__class__ = Child
{p}.__class__ = Config
{p}.k = 4.0
{p}.k = 1
{p}.k = {o}
{p}.gain = 6.0
{p}.level = 3
{p}.scale = lambda v: v * 3
{p}.fresh = 1
del {p}.k
del {p}.gain
del {p}.fresh
{p}.__dict__ = dict(reversed(list({p}.__dict__.items())))
{p}.__dict__['k'] = {p}.__dict__.pop('k')
{p}.__dict__.clear()
{p}.__dict__.update(k=2.0)
{a} = copy.copy({p})
{a} = copy.deepcopy({p})
{a} = A()
{a} = B(2.0)
{a} = Config()
{a} = SPECIAL
{a} = {o}
{a} = Child(1.0)
{a} = Slotted(2.0)
{a} = C()
{a} = 3.0
{a} = types.SimpleNamespace(k=2.0, gain=1.0)
{p}.k = torch.ones(3)
{p}.k = [1.0]
{p}.k = lambda v=1.0: v
{p}.k = {p}
{p}.k = -{p}.k
{p}.k = float(str({p}.k))
{p}.gain, {p}.k = {p}.k, {p}.gain
{p}.twice = 3.0
{p}.__len__ = lambda: 9
{p}.__eq__ = lambda other: True
{p}.__class__ = Options
{p}.__dict__ = {'k': 5.0}
{p}.__dict__ = dict({p}.__dict__)
{p}.__dict__ = {o}.__dict__
{p}.__dict__.pop('k', None)
{p}.__dict__.setdefault('level', 2)
{p}.parts[0] = 7.0
{p}.table['a'] = 2.0
{p}.table = {'a': 2.0}
None""".splitlines()
CLASS = """\
{p}.gain = 5.0
{p}.k = 9.0
{p}.level = 2
del {p}.gain
del {p}.scale
class New({p}): gain = 6.0
class New({p}): pass
class Gone({p}): pass\ndel Gone
Abc.register({p})
Abc.register({p}); {p}.gain = 1.0
gain_of.register({p}, lambda v: 9.0)
{p}.__len__ = lambda self: 2
{p}.__bool__ = lambda self: False
{p}.__eq__ = lambda self, other: True
{p}.__eq__ = lambda self, other: self is other or self.k == other
{p}.__ne__ = lambda self, other: True
{p}.__lt__ = lambda self, other: True
{p}.__contains__ = lambda self, v: True
{p}.__getitem__ = lambda self, key: 2.0
{p}.__float__ = lambda self: 2.0
{p}.__int__ = lambda self: 2
{p}.__str__ = lambda self: 'changed'
{p}.__format__ = lambda self, spec: 'changed'
{p}.__dir__ = lambda self: ['k']
{p}.__deepcopy__ = lambda self, memo: A(4.0)
{p}.__mul__ = lambda self, other: 3.0
{p}.__rmul__ = lambda self, other: 3.0
{p}.__get__ = lambda self, obj, owner=None: 7.0
{p}.__class_getitem__ = classmethod(lambda cls, key: 3.0)
{p}.__new__ = staticmethod(lambda cls, *a: A(6.0))
{p}.__delattr__ = lambda self, name: None
{p}.__enter__ = lambda self: self
{p}.__match_args__ = ('gain',)
{p}.__doc__ = 'other'
{p}.k = Desc()
{p}.gain = property(lambda self: 13.0)
{p}.scale = staticmethod(lambda v: v * 9)
{p}.scale = functools.partialmethod(lambda self, v: v * 10)
{p}.scale.__defaults__ = (1.0,)
{p}.scale.__code__ = (lambda self, v: v * 11).__code__
{p}.__init__.__defaults__ = (9.0,)
del {p}.__eq__
del {p}.__len__
del {p}.__init__
{p}.__hash__ = None
{p}.__hash__ = lambda self: 1
{p}.__getattr__ = lambda self, name: 1.5
{p}.__getattribute__ = lambda self, name: object.__getattribute__(self, name)
{p}.__setattr__ = lambda self, name, v: object.__setattr__(self, name, 8.0)
{p}.scale = lambda self, v: v * 7
{p}.__call__ = lambda self, v: v * 8
{p}.__init__ = lambda self, k=1.0: setattr(self, 'k', 7.0)
{p}.__name__ = 'Renamed'
{p}.__qualname__ = 'A'
{p}.twice = property(lambda self: 11.0)
{p}.k = property(lambda self: 12.0)
{p}.__iter__ = lambda self: iter([1.0])
{p}.__repr__ = lambda self: 'changed'
{p}.__copy__ = lambda self: A(3.0)
{p}.__instancecheck__ = classmethod(lambda cls, v: True)
{p}.__subclasshook__ = classmethod(lambda cls, v: True)
{p}.__bases__ = (C,)
{p}.write = lambda self, text: None
{p}.v = 8.0
{p}.__reduce__ = lambda self: 'x'
NAMES[{p}] = 8.0
TABLE[{p}] = 9.0
TABLE.pop({p}, None)
KNOWN.append({p})
{a} = A
{a} = {o}
{a} = type('A', ({p},), {'__module__': 'fuzz'})""".splitlines()
FUNCTION = """\
{p}.__code__ = (lambda *a, **k: 5.0).__code__
{p}.__code__ = {o}.__code__
{p}.__defaults__ = (3.0,)
{p}.__defaults__ = None
{p}.__kwdefaults__ = {'plus': 1.0, 'v': 2.0}
{p}.__kwdefaults__['plus'] = 3.0
{p}.level = 2
{p}.__name__ = 'renamed'
{p}.__dict__.clear()
{a} = lambda *a, **k: 4.0
{a} = (lambda f: lambda *a, **k: f(*a, **k) + 1)({p})
{a} = functools.partial({p})
{a} = {o}
{p}.__kwdefaults__ = None
{p}.__dict__['level'] = 3
{p}.__doc__ = 'other'
{p}.__qualname__ = 'other'
{p}.__wrapped__ = abs
{p}.__code__ = {p}.__code__.replace(co_consts={p}.__code__.co_consts)
{p}.__code__ = (lambda v, *a, **k: v * 6.0).__code__
{p}.__defaults__ = (-2.0,)
{a} = functools.lru_cache({p})
{a} = functools.wraps({p})(lambda *a, **k: 4.5)
{a} = types.MethodType(lambda self, *a: 2.5, A())
{a} = types.FunctionType({p}.__code__, globals())
{a} = A(2.0)
{a} = None
{a} = abs""".splitlines()
MODULE = """\
{p}.train()
{p}.eval()
{p}.register_forward_hook(lambda m, a, out: out * 2)
{p}.register_forward_pre_hook(lambda m, a: tuple(v + 1 for v in a))
{p}.register_full_backward_hook(lambda m, gi, go: None)
{p}._forward_hooks.clear()
{p}.double()
{p}.float()
{p}.half()
{p}.requires_grad_(False)
{p}.requires_grad_(True)
{p}.zero_grad()
{p}.forward = lambda v: v * 3
{p}.__dict__.pop('forward', None)
{p}.k = 3.0
{p}.register_buffer('late', torch.ones(3))
{p}.add_module('late', nn.Identity())
{p}.load_state_dict({k: v + 1 for k, v in {p}.state_dict().items()})
{p}.weight = nn.Parameter(torch.full_like({p}.weight, 2.0))
{p}.weight.data = {p}.weight.data * 3
{p}.bias = None
{p}.apply(lambda m: m.train(not m.training))
{p}.share_memory()
{p}.to(torch.float64)
{p}.w = nn.Parameter(torch.ones(3))
del {p}.w
{p}.seen.add_(1)
{p}.__class__.forward = lambda self, v: v * 4
{p}.momentum = 0.5
{p}.track_running_stats = False
nn.init.constant_({p}.weight, 0.5)
{a} = nn.Identity()
{p}.weight.data.add_(1)
{p}.weight.data = {p}.weight.data.double()
{p}.weight = {p}.weight
{p}.weight = {o}.weight
{p}.bias = nn.Parameter(torch.ones(3))
{p}.weight.requires_grad_(False)
{p}.weight.grad = torch.ones_like({p}.weight)
{p}.k = -1.0
{p}.k = 3
{p}.training = not {p}.training
{p}[0] = nn.ReLU()
{p}[0] = {p}[2]
{p}.append(nn.ReLU())
{p}._modules.popitem()
{p}._modules = dict(reversed({p}._modules.items()))
{p}._parameters['weight'] = nn.Parameter(torch.eye(3))
{p}._buffers.clear()
{p}.register_forward_hook(lambda m, a, k, out: out + 1, with_kwargs=True)
{p}.register_forward_pre_hook(lambda m, a: None)
{p}._forward_pre_hooks.clear()
{p}.register_full_backward_pre_hook(lambda m, g: g)
{p}.register_state_dict_post_hook(lambda *a: None)
{p}.register_parameter('late', nn.Parameter(torch.ones(3)))
{p}.__class__ = nn.Identity
{p}.forward = types.MethodType(lambda self, v: v * 5, {p})
{p}.seen = torch.ones(3)
{p}.seen.zero_()
{p}.seen = None
{p}.w.data.mul_(2)
{p}.w = None
{p}.to(torch.bfloat16)
{p}.extra_repr = lambda: 'x'
{p}.eps = 0.5
{p}.running_mean.fill_(1)
{p}.num_batches_tracked.add_(1)
torch.nn.utils.parametrize.register_parametrization({p}, 'weight', nn.Tanh())
torch.nn.utils.weight_norm({p})
nn.init.ones_({p}.weight); {p}.eval()
{a} = nn.Sequential({p})
{a} = lambda v: v * 2
{a} = None
{a} = copy.deepcopy({p})""".splitlines()
LIST = """\
{p}.append(1.0)
{p}.append(2)
{p}.append({o})
{p}.pop()
{p}.clear()
{p}.reverse()
{p}.insert(0, 3.0)
{p}[0] = 4.0
{p}[0] = torch.ones(3)
{p}[0] = A()
{p}[0], {p}[-1] = {p}[-1], {p}[0]
{p}[0] = float(str({p}[0]))
{p}[-1] = 1
{p}.extend({p})
{p}.extend([{o}, 1.0])
{p} += [5.0]
{p}[:] = {p}[::-1]
{p}[1:] = []
{p}.append({p})
{a} = {p} + [1.0]
{a} = list(reversed({p}))
{a} = collections.deque({p})
{a} = None
{p}[:] = [1.0, 2.0]
{p}.sort(key=str)
{a} = list({p})
{a} = tuple({p})
{a} = [3.0]
{a} = {o}
del {p}[0]""".splitlines()
DICT = """\
{p}['a'] = 3.0
{p}['a'] = {p}.pop('a')
{p}['n'] = 1
{p}['b'] = {o}
{p}.pop('b', None)
{p}.clear()
{p}.update(a=5.0, b=6.0)
{p}.update([('z', 1.0)])
{p}['v'] = 7.0
{p}[next(iter({p}))] = 8.0
{p}[next(iter({p}))] = {p}.pop(next(iter({p})))
{a} = dict({p})
{a} = {'b': 1.0, 'a': 2.0}
{a} = {o}
{p}.popitem()
{p}[1] = 2.0
{p}['a'] = -{p}['a']
{p}['a'] = float({p}['a'])
{p}['a'] = torch.ones(3)
{p}['a'] = A()
{p}['a'], {p}['b'] = {p}['b'], {p}['a']
{p}[A()] = 1.0
{p}[SPECIAL] = 2.0
{p}['self'] = {p}
{p}.setdefault('q', 1.0)
{p}.__init__(a=9.0)
del {p}[next(iter({p}))]
{a} = collections.OrderedDict({p})
{a} = collections.defaultdict(lambda: 4.0, {p})
{a} = dict(reversed(list({p}.items())))
{a} = None""".splitlines()
OTHERS: dict[Any, list[str]] = {
    (set, frozenset): ["{p}.add(3.0)", "{p}.discard(1.0)", "{a} = {1.0}"],
    tuple: ["{a} = (3.0, 1.0)", "{a} = {p} + (1.0,)", "{a} = list({p})"],
    collections.deque: [
        "{p}.append(3.0)",
        "{p}.popleft()",
        "{p}.rotate(1)",
        "{p}.clear()",
        "{a} = collections.deque({p}, maxlen=1)",
    ],
    numpy.ndarray: [
        "{p}[0] = 7",
        "{p} *= 2",
        "{p}[...] = 1",
        "{a} = {p}.astype('d')",
        "{a} = {p}.copy()",
        "{a} = numpy.ones(2, 'f')",
        "{p}.fill(2)",
        "{p}.sort()",
        "{p}.flat = [3, 1, 2]",
        "{p}.dtype = 'i4'",
        "{p}.resize(2, refcheck=False)",
        "torch.from_numpy({p}).add_(1)",
        "{a} = {p}[::-1]",
        "{a} = {p}[:]",
        "{a} = {p} + 1",
        "{a} = torch.from_numpy({p}).clone().numpy()",
        "{a} = {p}.tolist()",
        "{p}.flags.writeable = False",
        "{p}.shape = (1, 3)",
    ],
    functools._lru_cache_wrapper: [
        "{p}.cache_clear()",
        "{p}(1)",
        "{p}(2)",
        "{p}(3); {p}(4)",
        "{a} = {p}.__wrapped__",
    ],
    types.ModuleType: ["{p}.v = 3.0", "{p}.fresh = 1", "del {p}.v"],
    (types.GeneratorType, type(iter([]))): ["next({p})"],
    enum.Enum: ["{p}._value_ = 3", "{p}.__dict__['_name_'] = 'OTHER'"],
    weakref.ReferenceType: ["{a} = weakref.ref({p}())", "{a} = lambda: None"],
    weakref.WeakValueDictionary: ["{p}.clear()", "{p}['a'] = SPECIAL"],
    random.Random: ["{p}.seed(4)", "{p}.random()", "{a} = random.Random(5)"],
    numpy.random.RandomState: ["{p}.seed(4)", "{p}.rand()"],
    numpy.random.Generator: ["{p}.random()"],
    torch.Generator: ["{p}.manual_seed(4)", "torch.rand(2, generator={p})"],
    contextvars.ContextVar: [
        "{p}.set(3.0)",
        "{p}.set(1)",
        "{p}.set({o})",
        "{a} = contextvars.ContextVar('other', default=2.0)",
    ],
    logging.Logger: [
        "{p}.setLevel(40)",
        "{p}.setLevel(10)",
        "{p}.handlers.reverse()",
        "{p}.handlers.clear()",
        "{p}.handlers[0].setLevel(50)",
        "{p}.addFilter(lambda record: False)",
        "{p}.filters.clear()",
        "{p}.disabled = True",
        "{p}.name = 'renamed'",
        "{p}.addHandler(Keep())",
    ],
    torch.optim.Optimizer: [
        "{p}.param_groups[0]['lr'] = 0.5",
        "{p}.param_groups[0]['momentum'] = 0.5",
        "{p}.state.clear()",
        "{p}.zero_grad()",
        "{p}.load_state_dict({p}.state_dict())",
        "{p}.add_param_group({'params': [nn.Parameter(torch.ones(3))]})",
    ],
}
OF_RESULTS = """\
LAST.sum().backward()
LAST[0].sum().backward()
LAST[1].sum().backward()
LAST[0].sum().backward(); LAST[1].sum().backward()
LAST.add_(1)
LAST[0].add_(1)
LAST[-1].mul_(2)
LAST.detach().add_(1)
LAST.sum().backward(retain_graph=True)
torch.autograd.grad(LAST.sum(), [P])
LAST = None
del LAST[0]
LAST['n'].append(1.0)
LAST.k.add_(1)
KEEP = LAST
KEEP[0].add_(1)
KEEP = LAST[0]; KEEP2 = LAST[1]
KEEP.sum().backward()
KEEP2.sum().backward()
KEEP2.add_(1)
LAST[0].detach().mul_(2); LAST[1].sum().backward()
LAST[1].add_(1); LAST[0].sum().backward()
LAST[0].sum().backward(); OPT.step(); LAST[1].sum().backward()
LAST.sum().backward(); LAST.sum().backward()
LAST.backward()
(LAST[0].sum() + LAST[1].sum()).backward()
(LAST * 2).sum().backward()
torch.autograd.grad(LAST[0].sum(), [P]); LAST[1].sum().backward()
torch.autograd.grad(LAST.sum(), [P], create_graph=True)[0].sum().backward()
torch.autograd.grad(LAST.sum(), [P], retain_graph=True)
LAST.register_hook(lambda g: g * 2); LAST.sum().backward()
LAST[0].retain_grad(); LAST[0].sum().backward()
P.data.add_(1); LAST.sum().backward()
with torch.no_grad(): P.add_(1); LAST.sum().backward()
LAST.requires_grad_(False)
LAST.view(-1)[0] = 2.0
LAST.data = LAST.data * 2
LAST.resize_(min(LAST.numel(), 1))
LAST.clear()
LAST.append(1.0)
LAST[0] = 1.0
LAST.reverse()
LAST['y'].add_(1)
LAST.k = 2.0
LAST.gain = 1.0
LAST.table['a'] = 5.0
LAST()
LAST().add_(1)
LAST[...] = 3
SPECIAL.k = LAST
T0.copy_(LAST.detach().sum())
A.gain = LAST
LIST.append(LAST)
CACHE['a'] = LAST
HIST.clear()
HIST.append('a')
HIST[:] = [2, 3]
GROUPS.default_factory = tuple
GROUPS.pop('b', None)
BOOK.lines.default_factory = lambda: types.SimpleNamespace(k=3.0, gain=LAST)
BOOK.lines.clear()
P.grad = None; LAST.sum().backward(); OPT.step()""".splitlines()
