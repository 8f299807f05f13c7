# ruff: noqa: E501
"""Templates of what shows, cuts, joins or makes tensors. See templates.py."""

from __future__ import annotations

VIEWS = """\
{t}.view({z0}, -1)
{t}.reshape(-1)
{t}.reshape(-1, {zl})
{t}.flatten({d})
{t}.flatten(0, 1)
{t}.flatten(-2)
{t}.reshape(*{T}.shape[:-1], {c}, -1)
{t}.reshape({T}.shape[:-1] + ({c}, -1))
{t}.reshape({T}.shape[:-1] + (4, -1))
{t}.view(*{T}.shape[:2], -1)
{t}.reshape({z0} * {z1}, -1)
{t}.reshape({z0} // 2, 2, -1)
{t}.reshape({n}, -1)
{t}.reshape(-1, {n})
{t}.reshape({T}.numel() // {zl}, {zl})
{t}.unflatten({d}, ({c}, -1))
{t}.unflatten({d}, (-1, {n}))
{t3}.permute(0, 2, 1)
{t3}.permute(2, 0, 1).contiguous()
{t4}.permute(0, 2, 3, 1)
{t4}.permute(0, 2, 1, 3).flatten(2)
{t}.transpose({d}, {e})
{t}.transpose({d}, {e}).contiguous()
{t}.transpose({d}, {e}).reshape(-1, {zl})
{t}.movedim({d}, {e})
{t}.swapaxes(0, -1)
{t}.mT
{t2}.t()
{t}.T
{t}.unsqueeze({d}).expand({n}, *{T}.shape)
{t}[None].expand({n}, *{T}.shape)
{t}[None].expand({p}, *[-1] * {T}.dim())
{t}.unsqueeze({d})
{t}[..., None] * {u}
{t}[:, None]
{t}.squeeze()
{t}.squeeze({d})
{t}.expand_as({v})
{t}.sum({d}, keepdim=True).expand_as({T})
{t}.mean({d}, keepdim=True).expand(*{T}.shape)
{t}.repeat({n}, *[1] * ({T}.dim() - 1))
{t}.repeat(*[1] * ({T}.dim() - 1), {p})
{t}.tile({p})
{t}.tile(({c}, {p}))
{t}.repeat_interleave({p}, {d})
{t}.repeat_interleave({c}, dim={d})
{t}.broadcast_to({p}, *{T}.shape)
torch.broadcast_tensors({t}, {u})[0]
{t}.view_as({v})
{t}.reshape_as({v})
{t}.ravel()
{t3}.reshape({z0}, {z1}, 2, -1).transpose(1, 2)
{t3}.reshape({z0}, -1, 2, {zl} // 2).permute(0, 2, 1, 3)
heads({h3}, 2)
heads({h3}, 2).transpose(1, 2).reshape({T}.shape)
windows({t3}, {c})
windows({t3}, 3)[:, :, 0]
{t}.contiguous()
{t}.diagonal()
{t}.diagonal({c}, 0, -1)
{t}.diag_embed()
{t}.as_strided(({z0}, {zl}), ({zl}, 1))
{t}.as_strided(({n},), (1,), {c})
{t}.unfold({d}, {p}, {c})
{t}.unfold({d}, 2, 2)
{t}.unfold(-1, {zl} // 2, 1)
{t}.view(-1)[: {n}]
{t2}.reshape(1, *{T}.shape)
{t3}.reshape(1, -1, {zl})
torch.atleast_3d({t})
{t}.unsqueeze(-1).squeeze(0)
torch.movedim({t}, 0, -1)"""

PARTS = """\
{t}.chunk(2, {d})[0]
{t}.chunk(2, {d})[1]
{t}.chunk(2, {d})[-1]
{t}.chunk({c}, {d})[0]
{t}.chunk({c}, {d})[-1]
torch.cat({t}.chunk(2, {d})[::-1], {D})
torch.cat({t}.chunk({c}, {d})[::-1], {D})
{new}, {new} = {t}.chunk(2, {d})
{t}.tensor_split(2, {d})[0]
{t}.tensor_split({c}, {d})[-1]
{t}.tensor_split(({n},), {d})[1]
{t}.split({n}, {d})[0]
{t}.split({p}, {d})[-1]
{t}.split({c}, {d})[0]
{t}.split({s} // 2, {D})[0]
{t}.split({c}, {d})[-1]
torch.cat({t}.split({p}, {d})[::-1], {D})
{t}.split([{n}, {s} - {n}], {D})[1]
{t}.split([{c}, {s} - {c}], {D})[1]
{new}, {new} = {t}.split([{s} // 2, {s} - {s} // 2], {D})
{t}.split([{s} // 3, {s} - {s} // 3], {D})[0]
torch.stack({t}.unbind({d}), {D})
torch.stack({t}.unbind(0)[::-1])
{t}.unbind({d})[0]
{t}.unbind({d})[-1]
sum({t}.unbind({d}))
{t}.hsplit(2)[0]
{t}.narrow({d}, {n}, {p})
{t}.narrow({d}, 0, {n})
{t}.narrow({d}, {c}, {s} - {c})
{t}.narrow({d}, -{c}, {c})
{t}.narrow({d}, -{c}, 1)
{t}.narrow({d}, -{p}, {p})
{t}.select({d}, {n})
{t}.select({d}, -1)
{t}.select({d}, {s} - 1)
{t}.select({d}, {s} // 2)
{t}.select({d}, -{c})
{t}[..., : {n}]
{t}[..., {n}:]
{t}[: {n}]
{t}[{n}:]
{t}[:, : {z1} // 2]
{t}[:, {z1} // 2:]
{t}[:, -({z1} // 3):]
{t}[:, -{n}:]
{t}[: -{c}]
{t}[: -1]
{t}[..., 1:] - {T}[..., : -1]
{t}[..., 1:] * {T}[..., : {zl} - 1]
{t}[:: {c}]
{t}[..., ::2]
{t}[..., 1::2]
{t}[..., :: {p}]
{t}[:, {c}:: 2]
{t}[{n}]
{t}[-1]
{t}[..., -1]
{t}[{z0} - 1]
{t}[:, {n}]
{t}[..., {n}: {n}]
{t}[{z0} // 3: {z0} - {z0} // 3]
{t}[0, ...]
{t}[None, ..., : {n}]
{t}[slice({n})]
{t}[slice(None, {n}, 2)]
{t}[..., : Box({T}.shape).half]
{t}[..., : len(Box({T}.shape))]
{t}[..., : min({n}, {n})]
{t}[..., max({zl} - {c}, 0):]
{t}[..., -min({zl}, {c}):]
{t}.flip({d})
{t}.flip(0, -1)
torch.roll({t}, {n}, {d})
torch.roll({t}, {s} // 2, {d})
torch.roll({t}, -1, {d})
torch.roll({t}, ({c}, {p}), (0, -1))
torch.rot90({t}, {c})
F.pad({t}, (0, {p}))
F.pad({t}, ({c}, -{c}))
F.pad({t}, (0, -{zl} % {c}))
F.pad({t}, (0, ({c} - {zl} % {c}) % {c}))
F.pad({t}, (0, 0, 0, -{z0} % 4))
F.pad({t}, ({p}, {p}), value={f})
F.pad({t3}, ({c}, {c}), mode="reflect")
F.pad({t3}, (1, {c}), mode="replicate")
F.pad({t3}, ({c}, 1), mode="circular")
F.pad({t}, (0, math.ceil({zl} / 4) * 4 - {zl})).unflatten(-1, (-1, 4)).sum(-1)
F.pad({t}, (0, -{zl} % 3)).unflatten(-1, (-1, 3)).mean(-1)
padded({t}, {c})[0]
padded({t}, 4)[0][..., : {zl}]
torch.cat([{t}, {T}.new_zeros(*{T}.shape[:-1], {p})], -1)
torch.cat([{t}, {v}], {d})
torch.cat([{t}, {T}[: {n}]])
torch.cat([{t}[{n}:], {T}[: {n}]])
torch.cat([{t}, {u}], -1)
torch.cat([{t}, {u}])
torch.cat(({t}, torch.zeros({p}, *{T}.shape[1:], dtype=DT)))
torch.stack([{t}, {v}], {d})
torch.stack([{t}] * {p})
torch.stack([{t}[..., 0], {T}[..., -1]], -1)
torch.hstack([{t}, {v}])
torch.vstack([{t}, {v}])
torch.take({t}, torch.arange({p}))
torch.tril({t})
torch.triu({t}, {n})
torch.tril({t}, {zl} - {z0})"""

MAKES = """\
torch.arange({n})
torch.arange({n}).to(DT) * {f}
torch.arange({zl}, dtype=DT) + {T}
torch.arange({n}, {n}, {c})
torch.arange(0, {zl}, 2)
torch.arange({zl} - 1, -1, -1)
{t} + torch.arange({zl}, dtype=DT)
{t} * torch.arange({zl})
{t} + torch.arange({T}.size(-1)) / {f}
torch.linspace(0, 1, {p}, dtype=DT)
{t} * torch.linspace(0, 1, {zl}, dtype=DT)
{t} + torch.linspace(-{f}, {f}, {zl}, dtype=DT)
torch.zeros({n}, {n}, dtype=DT)
torch.zeros({zl}, dtype=DT) + {T}
torch.ones({T}.shape[:2], dtype=DT)
torch.ones({t}.shape, dtype=DT) * {f}
torch.full(({n},), {f}, dtype=DT)
torch.full({t}.shape, {f}, dtype=DT)
torch.full_like({t}, {f})
torch.full(({p},), {n})
torch.empty({n}, dtype=DT).fill_({f})
torch.empty({t}.shape, dtype=DT).fill_({f}) + {T}
torch.empty_like({t}).fill_({n})
{t}.new_zeros({z0}, {n})
{t}.new_ones({T}.shape[:-1]) * {f}
{t}.new_full(({p},), {f})
{t}.new_tensor([{f}, {f}])
{t}.new_empty({n}, 2).zero_()
torch.eye({p}, dtype=DT)
torch.eye({p}, {p}, dtype=DT)
torch.tensor({n}) * {t}
torch.tensor({f}, dtype=DT) + {t}
{t} * torch.tensor([{n}, {n}]).to(DT).sum()
torch.tensor([{n}, {n}, {c}])
torch.tensor({t}.shape)
torch.tensor({t}.shape).sum()
torch.as_tensor({t}.shape[-1]) + {T}
torch.tensor([float(d) for d in {t}.shape], dtype=DT)
torch.tensor([[{n}], [{n}]])
torch.scalar_tensor({f}, dtype=DT) * {t}
torch.from_numpy(np.arange({p}))
torch.tril(torch.ones({zl}, {zl}, dtype=DT))
torch.ones({p}, {p}, dtype=DT).triu({c})
torch.triu(torch.full(({p}, {p}), {f}, dtype=DT), 1)
torch.ones({zl}, {zl}).tril().bool()
mask_of({p})
{t} @ mask_of({T}.shape[-1])
MASK[: {n}, : {n}]
MASK[: {zl}, : {zl}] * 2
POS[: {n}]
POS[{n}: {n} + {c}]
torch.meshgrid(torch.arange({p}), torch.arange({p}), indexing="ij")[0]
torch.tril_indices({p}, {p})
torch.combinations(torch.arange({p}))
torch.cartesian_prod(torch.arange({p}), torch.arange({c}))
torch.bartlett_window({p}).to(DT)
torch.logspace(0, 1, {p}, dtype=DT)
torch.vander({t1}, {p})"""

INDICES = """\
{t}.gather({d}, {T}.argsort({D}))
{t}.gather(-1, torch.arange({zl}).expand({T}.shape))
{t}.gather(0, torch.zeros_like({T}, dtype=torch.int64))
{t}.gather(-1, torch.zeros(*{T}.shape[:-1], {p}, dtype=torch.int64))
{t}.index_select({d}, torch.arange({n}))
{t}.index_select({d}, torch.arange({s} - 1, -1, -1))
{t}.index_select({d}, torch.arange(0, {s}, 2))
{t}.index_select({d}, torch.tensor([0, {s} - 1]))
{t}.index_select({d}, torch.tensor([{n} % {s}]))
{t}[torch.arange({z0})]
{t}[torch.arange({n}) % {z0}]
{t}[:, torch.arange({n})]
{t}[..., torch.arange({zl} - 1, -1, -1)]
{t}[torch.arange({z0}), torch.arange({z0}) % {z1}]
{t}[torch.arange({z0})[:, None], torch.arange({z1})]
{t}[torch.tensor([0, -1])]
{t}[[0, {n}]]
{t}[[{z0} - 1, 0]]
{t}[{i}]
{t}[..., {i} % {zl}]
{t}.index_select({d}, {i}.flatten() % {s})
{t}.take_along_dim({T}.argsort({d}), {D})
F.embedding(torch.arange({p}), POS)
F.embedding(torch.arange({zl}) % 64, POS)
F.embedding({i} % 64, POS)
EMB({i})
EMB({i} % 64).mean(-2)
EMB(torch.arange({n}) % 64)
EMB(torch.tensor({n}) % 64)
F.one_hot(torch.arange({p}), {p} + 8)
F.one_hot({i} % 5, 5).to(DT)
POS[torch.arange({n})]
POS.index_select(0, torch.arange({n}))
{t}.masked_select({T} > 0)
{t}[{T} > 0].sum()
torch.nonzero({t} > 0).sum()
{t}.take(torch.tensor([{n} % {T}.numel()]))
torch.zeros({p}, {zl}, dtype=DT).index_add(0, torch.arange({p}) % {p}, {t2}[: {p}])
{t}.scatter(-1, torch.zeros_like({T}, dtype=torch.int64), {f})
{t}.scatter_add({d}, {T}.argsort({D}), {T})
{t}.index_fill({d}, torch.arange(0, {s}, 2), {f})
{t}.unique().sum()"""
