"""Statements with numpy's arrays.

`{a}` is one: an argument, of the state, or in the memory of a tensor.
"""

from __future__ import annotations

ARRAYS = """\
y = y + torch.from_numpy({a})
y = y * torch.from_numpy({a})
y = y + torch.tensor({a})
y = y + torch.as_tensor({a})
y = y + torch.as_tensor({a}, dtype=torch.float32)
y = y + torch.tensor({a}, dtype=torch.float64, device="cpu")
y = y + torch.FloatTensor({a})
y = y + torch.Tensor({a})
y = y + torch.from_numpy({a}.astype(numpy.float32))
y = y + torch.from_numpy({a}.astype("d"))
y = y + torch.from_numpy({a}.copy())
y = y + torch.from_numpy({a}[0:2]).sum()
y = y + torch.from_numpy({a}[..., 1:])[..., :1]
y = y + torch.from_numpy({a}[None])
y = y + torch.from_numpy({a}[:, None]).sum()
y = y + torch.from_numpy({a}.T)
y = y + torch.from_numpy({a}.reshape(-1))
y = y + torch.from_numpy(numpy.expand_dims({a}, 0))
y = y + torch.from_numpy(numpy.transpose({a}))
y = y + torch.from_numpy(numpy.asarray({a}))
y = y + torch.from_numpy(numpy.ascontiguousarray({a}))
y = y + torch.from_numpy(numpy.array({a}))
y = y + torch.from_numpy(numpy.array([{a}, {a}]))
y = y + torch.from_numpy(numpy.stack([{a}, {a}]))
y = y + torch.from_numpy(numpy.concatenate([{a}, {a}]))[:1]
y = y + float({a}[0])
y = y + {a}[..., -1].item()
y = y + {a}.sum().item()
y = y + float(numpy.mean({a}))
y = y * float({a}.max() > 1)
y = y + torch.from_numpy({a} * 2 + 1)
y = y + torch.from_numpy(numpy.sin({a}))
y = y * {a}.shape[0]
y = y * len({a})
y = y * (2 if isinstance({a}, numpy.ndarray) else 3)
y = y * (2 if {a}.dtype == numpy.float32 else 3)
y = y * {a}.ndim + {a}.size
y = y + sum({a}.tolist())
y = y * (2 if 1.0 in {a} else 3)
v = torch.from_numpy({a}); v.add_(1); y = y + v
v = torch.from_numpy({a}); y = y + v; v.mul_(2)
v = torch.as_tensor({a}); {a}[0] = 5; y = y + v
{a}[0] = 5
{a}[...] = 2
{a} += 1
numpy.add({a}, 1, out={a})
{a}.fill(3)
{a}.sort()
{a}[0:2][0] = 4
{a}.shape = (-1,)
v = y.detach().numpy(); v[..., 0] = 2
v = y.detach().numpy(); y = y.detach().add_(1) + torch.from_numpy(v)
v = y.detach().clone(); y = y + torch.from_numpy(v.numpy()); v.add_(1)
v = y.detach().numpy(); extra.append(v)
v = y.detach().clone(); extra.append(v.numpy()); v.mul_(2)
extra.append({a})
extra.append({a}[0:2])
extra.append({a}.copy())
extra.append({a}.tolist())
extra.append(torch.from_numpy({a}))
extra.append(torch.from_numpy({a}).numpy())
extra.append({a} * 2)
extra.append({a}.sum())
extra.append(y.detach().numpy())
extra.append(y.detach().flatten().numpy())
extra.append(y.detach()[..., :2].numpy())
extra.append(y.detach().tolist())
extra.append(y.detach().numpy().tolist())
v = y.detach().tolist(); extra.append(v); extra.append(v)
v = y.detach().numpy(); extra.append(v); extra.append(v[..., :1])
v = y.detach().numpy().tolist(); v.append(1.0) if isinstance(v, list) else 0
v = {a}.tolist(); v += [1.0]; extra.append(v)
SPECIAL.kept = {a}
SPECIAL.kept = y.detach().numpy()
SPECIAL.kept = y.detach().tolist()
QUEUE2.append(y.detach().numpy())
CACHE["b"] = {a}
y = y + torch.as_tensor(getattr(SPECIAL, "kept", 1.0)).sum().float()
T0.data = T0.data * 0.5
T0.data = y.detach().flatten()[:3].float().clone()
P.data = P.data + 1
P.data = T0.data
P.data -= 0.1 * P.data
v = P.data; P.data = v * 2; y = y + P.sum().item(); P.data = v
v = P.data; P.data = v + 1; extra.append(v)
LIN.weight.data = LIN.weight.data * 0.9 + 0.1
LIN.weight.data = LIN.weight.data.clamp(-0.5, 0.5)
x.data = x.data * 2
x.data = T0.data
y.data = y.data * 2
v = T0.data; T0.data = T0.data * 3; v.add_(1)
""".splitlines()
