"""Statements with tensors, gradients and layers.

`{t}` and `{u}` are tensors. What eager gives for gelu(inf) depends on how many
there are: infinity for one, NaN for three.
"""

from __future__ import annotations

TENSORS = """\
y = torch.relu(y)
y = torch.tanh(y) + {t}
y = y + {t}
y = y * {t}
y = {t} * y
y = y - {t}
y = y @ M
y = torch.sin(y) * 2
y = y.sum(-1, keepdim=True) + y
y = y.reshape(-1)
y = y.view(-1)[:3]
y = y[..., 0:2]
y = y.clone()
y = torch.cat([y.flatten(), {t}.flatten()])[:3]
y = y.t() if y.dim() == 2 else y
y = y.flip(-1)
y = y.cumsum(-1)
y = y.softmax(-1)
y = y.sort(-1).values
y = y.topk(1).values + y
y = torch.where(y > 0, y, {t})
y = y.neg().abs()
y = y.unsqueeze(0) + {t}
y = y.mean() + y
y = y.exp().log()
y = y.sqrt()
y = y / {t}
y = F.gelu(y.clamp(-9, 9))
y = F.layer_norm(y, y.shape[-1:])
y = y.to(torch.float64).float()
y = y.detach()
y = y.contiguous()
y = y.expand(2, *y.shape)[0]
y = y.chunk(2, -1)[0]
y = y.index_select(-1, torch.tensor([0, 0, 0]))
y = y.max(-1, keepdim=True).values * y
y = torch.stack([y, {t} + y]).sum(0)
y += 1
y *= 2
y.add_(1)
y.mul_({t})
y[..., 0] = 3
v = y.view(-1); v[0] = 7
v = y.clone(); v.add_({t}); y = y + v
v = y[..., :1]; y = y + v
y = torch.add(y, {t}, alpha=2)
y = (y.reshape(1, -1) @ y.reshape(-1, 1)).sum() + y
y = y + torch.zeros_like(y)
{t}.add_(1)
{t}.mul_(0.5)
{t}.copy_(y.detach().sum())
{t}[..., 0] = y.detach().sum()
with torch.no_grad(): {t}.add_(1)
with torch.no_grad(): {t}.copy_(y.sum())
{t}.zero_()
torch.add({u}, 1, out={u})
{t}.data.add_(1)
torch._foreach_add_([{t}, {u}], 1.0)
torch._foreach_mul_([{t}, {u}], 2.0)
extra.append({t})
extra.append({t} * 2)
extra.append({t}.detach())
extra.append(y)
extra.append(y.view(-1))
extra.append(y.detach())
extra.append(y[..., 0])
y = y + ARR.sum().item()
ARR[0] += 1; y = y + SHARED.sum()
SHARED.add_(1); y = y + float(ARR[0])
y = y + torch.from_numpy(ARR)
y = y + ARR
y = LIN(y)
y = LIN(y) + LIN.bias
y = BN(y.reshape(-1, 1).expand(-1, 3)).sum(0) + y
y = OUTER(y)
y = F.linear(y, M)
y = F.dropout(y, 0.5)
y = y + torch.rand(3)
y = y + torch.rand(1, generator=TRNG)
y = y + torch.randn_like(y)
y = torch.bernoulli(torch.sigmoid(y)) + y
v = y.nonzero(); y = y + v.shape[0]
y = y[y > 0]
y = y + torch.tensor(y.shape).sum()
y = y + y.size(0) + y.ndim
y = torch.einsum("...i,i->...i", y, {t})
y = y + {t}.T.sum()
y = torch.complex(y, y).abs()
with torch.no_grad(): y = y * 2
with torch.enable_grad(): y = y * 2
with torch.inference_mode(): y = y * 2
with torch.autocast("cpu", dtype=torch.bfloat16): y = y + M @ M[0]
y = torch.utils.checkpoint.checkpoint(torch.sin, y, use_reentrant=False)
y = y - y.item() if y.numel() == 1 else y
y = -y + ~(y > 0)
y = (y > {t}).float() + y // 2 + y % 3
y = y.requires_grad_() if y.is_leaf else y
y = functools.reduce(torch.add, [y, {t}, y])
y = torch.stack(list(map(torch.relu, [y, y]))).amax(0)
y = [k * y for k in (1, 2) if k][-1]
y = torch.maximum(*(k * y for k in (1, 2)))
y = torch.maximum(*map(torch.sin, (y, {t})))
y = torch.add(*(k for k in (y, {t})), alpha=2)
y = y.reshape(*(k for k in y.shape))
extra.append(y.tolist())
extra.append({t}.flatten().tolist()[0])
v = (y > 0).tolist(); y = y * 2 if v == [True] else y
y = y * float((y > 1).sum())
y = y + max(y.flatten().tolist())
extra.append(y.detach().bfloat16().sum().item())
extra.append(f"{{y.detach().half().mean().item():.2f}}")
extra.append(sum(k.item() for k in y.flatten()))
v = y * 1; extra.append(v.retain_grad() if v.requires_grad else 1)
v = y * P; v.retain_grad(); v.sum().backward(); extra.append(v.grad)
y = torch.add(*({l}.append(1.0) or k for k in (y, {t})))
extra.append(max(*(k for k in (1.0, len({l})))))
extra.append(dict(*([(k, 1.0)] for k in "a")))
extra.append([*zip(*(k for k in ([1.0], {l})))])
y = {{'a': y, 'b': {t}}}['a'] + 1
y, v = (y, {t}); y = y + v
y = y.new_tensor([1.0]) + y
y = (y + {t}).sum().sqrt() + y
v = {t}.detach().numpy(); {t}.detach().add_(1); y = y + float(v.sum())
v = {t}.numpy(); y = y + v.sum().item()
v = x.detach().numpy(); x.detach().mul_(2); y = y + float(v.sum())
v = {t}.detach(); v.add_(1); y = y + {t}
v = {t}.data; {t}.detach().mul_(2); y = y + v
v = {t}.detach().view(-1); v[0] = 3; y = y + {t}
torch._foreach_add_([{t}, {t}], 1.0)
torch._foreach_copy_([{t}.detach()], [{u}.detach()])
torch._foreach_mul_([{t}.detach().view(-1), {t}.detach()], 2.0)
y.copy_({t})
v = {t}.view(-1); v += 1
v = y.unbind(-1); y = y + v[0].unsqueeze(-1); extra.append(v[1])
v = y.split(1, -1); extra.append(v)
v = torch.empty_like(y); v.copy_(y); y = v
y = torch.add(y, 1, out=torch.empty(0))
torch.sin(y.detach(), out={t})
y = torch.func.vmap(lambda k: k * 2)(y)
y = torch.func.grad(lambda k: (k * k).sum())(y.detach())
y = Twice.apply(y)
y = y + torch.linalg.norm(y)
y = y.masked_select(y > 0)
y = F.embedding(torch.tensor([0, 1]), M).sum(0) + y
y = F.one_hot(torch.tensor([0, 2, 1]), 3).float() @ M + y
y = F.cross_entropy(y.reshape(1, -1), torch.tensor([0])) + y
y = F.mse_loss(y, {t}) + y
y = F.scaled_dot_product_attention(M[None], M[None], M[None])[0, 0] + y
y = F.interpolate(y.reshape(1, 1, -1), scale_factor=2.0).flatten()[:3]
y = F.normalize(y, dim=-1)
y = F.batch_norm(M, None, None, training=True)[0] + y
y = y.unique()
y = y.argmax() + y
y = y.argsort(-1) + y
y = y.prod() + y
y = y.min(-1).values.unsqueeze(-1) + y
y = y.any() + y
y = torch.isnan(y).float() + y
y = y.nan_to_num()
y = y.round(decimals=1)
y = y.sign() * y
y = y.sum(0, dtype=torch.float64)
y = torch.tensordot(y, {t}, 1) if y.dim() == 1 else y
y = torch.outer(y.flatten(), {t}.flatten())[0]
y = y.movedim(0, -1)
y = y.as_strided((2,), (0,))
y = y.diag()[:3] if y.dim() == 1 else y
y = torch.cat([y, y], -1)[..., ::2]
y = torch.meshgrid(y.flatten(), indexing='ij')[0]
y = y.where(y > 0, 0.0)
y = torch.vmap(torch.sin)(y)
y = MLP(y.flatten()[:1].expand(3))
y = TIED(y.flatten()[:1].expand(3))
y = GRU(y.reshape(1, -1, 1))[0].flatten()[:3]
y = torch.utils.checkpoint.checkpoint(LIN, y, use_reentrant=False)
y = y + sum(p.sum() for p in LIN.parameters())
y = y + sum(v.sum() for k, v in LIN.state_dict().items())
y = torch.func.functional_call(LIN, {{'bias': {t}}}, (y,))
y = y * len(list(LIN.named_parameters()))
{t}.resize_(min({t}.numel(), 2))
{t}[0], v = 1.5, 2.0
{t}[{t} > 1] = 0.5
v = weakref.ref(y); y = v() + 1
y = torch.stack([v for v in (y, {t}) if v.requires_grad] or [y])[0]
y = y + torch.tensor([{t}.sum(), 1.0]).sum()
y = y + float({t}.sum())
y = y + {t}.sum().item()
y = y * (2.0 if {t}.sum() > y.sum() else 3.0)
y = y[:, None].squeeze(1) if y.dim() else y
y = torch.ones(3).as_subclass(torch.Tensor) * y
y = y.grad if y.grad is not None else y
y = y.to("cpu", copy=True)
y = y.type_as({t})
y = {t}.expand_as(y) + y
y.add_({t}, alpha=2)
y.data.copy_({t})
y.detach_()
y.requires_grad_(False)""".splitlines()

TRAINING = [
    "(y * P).sum().backward()",
    "loss = ((y.detach() * P) ** 2).sum()\nOPT.zero_grad()\nloss.backward()\n"
    "OPT.step()\nextra.append(loss.detach())",
    "loss = (P.sqrt() * y.detach()).sum()\nP.grad = None\nloss.backward()\n"
    "extra.append(loss)",
    "loss = ((P - 2).sqrt() * y.detach()).sum()\nP.grad = None\n"
    "loss.backward()\nextra.append(loss.detach())",
    "loss = LIN(y.detach().reshape(-1)[:1].expand(3)).sum()\n"
    "LIN.zero_grad()\nloss.backward()",
    "ADAM.zero_grad()\n((y.detach() - P) ** 2).sum().backward()\nADAM.step()",
    "v, = torch.autograd.grad((P * y.detach()).sum(), [P])\ny = y + v",
    "y = y * P",
    "y = y * P\nextra.append((P * 2).sum())",
    "extra.append(P.detach())",
    "with torch.no_grad():\n    v = P.view(-1)\nextra.append(v)",
    "with torch.no_grad():\n    P.sub_(0.5)",
    "P.grad = None",
    "if P.grad is not None:\n    y = y + P.grad",
    "with torch.no_grad():\n    if P.grad is not None:\n        P -= P.grad",
    "{t}.sum().backward()",
    "y = y * {t}\nextra.append({t}.grad)",
    "OPT.step()",
    "torch.nn.utils.clip_grad_norm_([P], 1.0)",
    "y = y * P\nextra.append(((P - 1) * y.detach()).sum())",
    "extra.append((P * 3).exp())\nextra.append((P * 2).exp())",
    "v = (P * y.detach()).sum()\nv.backward(retain_graph=True)\nv.backward()",
    "v = (P * 2).view(-1)\nextra.append(v)\nextra.append(v[:1])",
    "v, w = (P * y.detach()).split([1, 2])\nextra.append(v)\nextra.append(w)",
    "P.grad = torch.ones_like(P) * y.detach().sum()\nOPT.step()",
    "P.grad.zero_() if P.grad is not None else None",
    "OPT.zero_grad(set_to_none=False)",
    "v, = torch.autograd.grad((P * P).sum(), [P], create_graph=True)\n"
    "y = y + v",
    "SCHED.step()",
    "OPT.step()\nSCHED.step()\ny = y * OPT.param_groups[0]['lr']",
    "(LIN(torch.ones(3)) * y.detach()).sum().backward()\n"
    "y = y + LIN.weight.grad.sum()",
    "P.register_hook(lambda g: g * 2)\n(P * y.detach()).sum().backward()",
    "v = Twice.apply(P)\nextra.append(v)\nv.sum().backward()",
    "P.data = P.data * 0.5",
    "P.data.mul_(0.5)",
    "with torch.no_grad():\n    P.copy_(y.sum())",
    "with torch.no_grad():\n    for p in LIN.parameters():\n"
    "        p.mul_(0.5)",
    "MLP.zero_grad()\nMLP(y.detach().flatten()[:1].expand(3)).sum()"
    ".backward()\nfor p in MLP.parameters():\n    extra.append(p.grad)",
    "with torch.set_grad_enabled(P.requires_grad):\n    y = y * P",
]
