# ruff: noqa: E501
"""What statements of programs are made of.

A line is a template; `;;` stands for a new line. What stands in braces is
filled in from left to right, see grammar.py: {t} any float tensor, {t2} one of
two dims, {h3} one whose last size is HID, {T} the last tensor again, {u} any
float tensor, {v} one that looks as {T} does; {d} a dim of it, {D} the same
again, {e} any dim; {s} its size in that dim, {z0} {z1} {zl} sizes of its
dims; {n} whole numbers made of sizes, {p} small positive ones, {c} a constant;
{f} floats made of sizes; {i} a tensor of indices; {new} {int} new names;
{cond} a condition of sizes; {keep} a statement that changes {y}'s values, no
shape. An expression without `=` gets a new name.
"""

from __future__ import annotations

import re

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

COMPUTES = """\
{t} * {f}
{t} / {n}
{t} + {n}
{n} - {t}
{t} * {f} + {u}
{f} / ({t}.abs() + 1)
{t} // {p}
{t} % {p}
{t}.abs() ** {f}
{t}.clamp(-{p}, {p})
{t}.clamp(min={f})
torch.add({t}, {u}, alpha={n})
torch.add({t}, {v}, alpha={f})
torch.sub({t}, {u}, alpha={p})
torch.lerp({t}, {v}, {f})
torch.addcmul({t}, {T}, {v}, value={f})
{t} + {u}
{t} * {u}
{t} - {u}
{t} + {v}
{t} * {v} - {T}
torch.maximum({t}, {u})
{t}.softmax({d})
{t}.softmax(-1)
{t}.log_softmax({d})
F.softmax({t} / math.sqrt({zl}), -1)
{t}.logsumexp({d})
{t}.mean({d})
{t}.mean()
{t}.mean(({d}, {e}))
{t}.mean((0, -1), keepdim=True)
{t}.sum({d})
{t}.sum()
{t}.sum({d}) / {s}
{t}.sum() / {T}.numel()
{t}.sum({d}, keepdim=True) / {T}.shape[{D}]
{t}.var({d})
{t}.var({d}, unbiased=False)
{t}.std()
{t}.std({d}, keepdim=True)
{t}.var((0, -1))
torch.var_mean({t}, {d})[0]
{t}.norm()
{t}.norm(dim={d})
torch.linalg.vector_norm({t}, dim={d})
{t}.cumsum({d})
{t}.cumprod({d})
{t}.cummax({d})[0]
{t}.logcumsumexp({d})
{t}.diff(dim={d})
{t}.diff({c})
{t}.prod({d})
{t}.amax({d})
{t}.max({d}).values
{t}.min({d}, keepdim=True)[0]
{t}.aminmax(dim={d})[1]
{t}.argmax({d})
{t}.argsort({d})
{t}.median({d}).values
{t}.kthvalue({p}, {d})[0]
{t}.quantile({f}, {d})
torch.sort({t}, {d})[0]
{t}.sort({d}, descending=True)[1]
{t}.topk({p}, {d})[0]
{t}.topk(max(1, {s} // 2), {D}).values
{t}.topk({c}, {d}).indices
{t}.topk(min({s}, {c}), {D})[1]
torch.where({t} > 0, {T}, {f})
torch.where({t} > {f}, {T}, {v})
{t}.masked_fill({T} < 0, {f})
{t}.masked_fill(torch.arange({zl}) >= {n}, {f})
{t}.masked_fill(torch.arange({zl}) % 2 == 0, {n})
{t}.masked_fill(torch.ones({z0}, {zl}).tril().bool(), -9.0)
{t}.masked_fill(~torch.ones({zl}, {zl}, dtype=torch.bool).tril(), -9.0)
F.layer_norm({t}, {T}.shape[-1:])
F.layer_norm({t}, ({zl},))
F.layer_norm({t}, {T}.shape[1:])
F.layer_norm({t}, {T}.shape[-1:], torch.ones({zl}, dtype=DT))
F.group_norm({t}, {c})
F.group_norm({t}, {z1})
F.instance_norm({t3})
F.rms_norm({t}, ({zl},))
F.normalize({t}, dim={d})
F.cosine_similarity({t}, {v}, {d})
F.gelu({t})
F.glu({t}, {d})
F.hardtanh({t}, -{p}, {p})
F.leaky_relu({t}, {f})
F.elu({t}, {f})
F.threshold({t}, {f}, {n})
F.mse_loss({t}, {v})
F.l1_loss({t}, {v}, reduction="sum") / {z0}
F.smooth_l1_loss({t}, {v}, beta={f})
F.cross_entropy({t2}, torch.arange({z0}) % {zl})
F.cross_entropy({t2}, {T}.softmax(-1))
F.nll_loss({t2}.log_softmax(-1), torch.arange({z0}) % {zl}, reduction="sum")
F.kl_div({t}.log_softmax(-1), {v}.softmax(-1), reduction="batchmean")
F.binary_cross_entropy_with_logits({t}, {v}.sigmoid())
{t}.relu().sqrt()
{t}.tanh()
{t}.sigmoid() * {T}
{t}.exp().clamp(max=9)
{t}.round()
{t}.floor() / {p}
{t}.sign()
{t}.to(torch.float64).mean(-1)
{t}.int() // {p}
{t}.half().to(DT)
{t}.bool().sum()
({t} > 0).sum({d})
({t} > 0).to(DT).mean()
{t}.nan_to_num()
{t}.isfinite().all()
torch.count_nonzero({t}, {d})
torch.bucketize({t}, torch.linspace(-1, 1, {p}, dtype=DT))
torch.histc({t}, {p}, -2, 2)
torch.searchsorted({t1}.sort()[0], {T})
torch.trapezoid({t}, dim={d})
torch.renorm({t}, 2, 0, {f})
torch.bincount(torch.arange({p}) % {c})
{t}.trace() + {T}"""

PRODUCTS = """\
{t} @ {T}.mT
{t}.mT @ {T}
{t} @ {u}
{t} @ {u}.mT
{h} @ W
{h} @ W / math.sqrt({zl})
F.linear({h}, W)
F.linear({t}, torch.ones({c}, {zl}, dtype=DT))
F.linear({t}, torch.ones({p}, {zl}, dtype=DT), torch.zeros({p}, dtype=DT))
{t3}.bmm({T}.mT)
torch.bmm({t3}.mT, {T}) / {z1}
torch.baddbmm({t3}, {T}.bmm({T}.mT), {T}, beta={f}, alpha={f})
torch.addmm({t2}, {T} @ {T}.mT, {T}, alpha={f})
torch.addmm({t2}, {T} @ {T}.mT, {T}, beta={f})
torch.einsum("bsh,bth->bst", {t3}, {T})
torch.einsum("bsh,bsk->bhk", {t3}, {T})
torch.einsum("bsh,hk->bsk", {h3}, W)
torch.einsum("bij->bji", {t3})
torch.einsum("ij,ij->", {t2}, {T})
torch.einsum("...i,...j->...ij", {t}, {T})
torch.einsum("...ij->...i", {t})
torch.einsum("ii->i", {t2})
torch.einsum("bs,bsh->bh", {t3}[..., 0], {T})
torch.outer({t1}, {u})
torch.outer({t}.flatten()[: {p}], {T}.flatten()[: {p}])
torch.dot({t}.flatten(), {T}.flatten())
torch.mv({t2}, {T}[0])
torch.cdist({t}, {T})
torch.kron({t2}, torch.eye({c}, dtype=DT))
torch.tensordot({t}, {T}, {c})
torch.tensordot({t}, {T}, dims=([-1], [-1]))
torch.matmul({t}, {T}[..., 0, :].unsqueeze(-1))
torch.matmul({t}.unsqueeze(1), {T}.mT)
{t}.matmul({T}[-1].mT)
torch.chain_matmul({t2}, {T}.t(), {T})
torch.inner({t}, {T})
F.scaled_dot_product_attention({t3}, {T}, {T})
F.scaled_dot_product_attention({t3}, {T}, {T}, is_causal=True)
F.scaled_dot_product_attention(heads({h3}, 2), heads({T}, 2), heads({T}, 2))
({t3} @ {T}.mT / math.sqrt({zl})).softmax(-1) @ {T}
({t3} @ {T}.mT).masked_fill(torch.ones({z1}, {z1}).triu(1).bool(), -9.0)
F.bilinear({t2}, {T}, torch.ones({c}, {zl}, {zl}, dtype=DT))"""

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

POOLS = """\
F.interpolate({t3}, scale_factor={c})
F.interpolate({t3}, scale_factor=0.5)
F.interpolate({t3}, scale_factor=1.5, mode="linear")
F.interpolate({t3}, scale_factor=0.7, recompute_scale_factor=True)
F.interpolate({t3}, scale_factor=1.3, mode="linear", recompute_scale_factor=True)
F.interpolate({t3}, size={p})
F.interpolate({t3}, size={zl} * 2, mode="linear", align_corners=True)
F.interpolate({t4}, scale_factor=2, mode="bilinear")
F.interpolate({t4}, scale_factor=0.6, mode="bicubic")
F.interpolate({t4}, size=({p}, {p}), mode="bilinear", align_corners=False)
F.interpolate({t4}, size={T}.shape[-2:], mode="nearest")
F.interpolate({t4}, size=tuple(2 * d - 1 for d in {T}.shape[2:]), mode="bilinear")
F.interpolate({t4}, ({zl} // 2, {zl}), mode="area")
F.avg_pool1d({t3}, {c})
F.avg_pool1d({t3}, {c}, 1, {c} // 2, ceil_mode=True)
F.avg_pool1d({t3}, {zl})
F.avg_pool2d({t4}, 2)
F.avg_pool2d({t4}, {T}.shape[2:])
F.avg_pool2d({t4}, 2, 1, 1, count_include_pad=False)
F.avg_pool2d({t4}, 2, ceil_mode=True)
F.max_pool1d({t3}, 2)
F.max_pool1d({t3}, {c}, {c}, ceil_mode=True)
F.max_pool1d({t3}, {p})
F.max_pool2d({t4}, 2)
F.max_pool2d({t4}, ({p}, 1))
F.max_pool2d({t4}, 3, 2, 1)
F.max_pool2d({t4}, 2, return_indices=True)[1]
F.adaptive_avg_pool1d({t3}, {c})
F.adaptive_avg_pool1d({t3}, {p})
F.adaptive_avg_pool1d({t3}, {zl} // 2)
F.adaptive_avg_pool2d({t4}, 1)
F.adaptive_avg_pool2d({t4}, 1).flatten(1)
F.adaptive_avg_pool2d({t4}, (2, None))
F.adaptive_avg_pool2d({t4}, ({p}, {c}))
F.adaptive_max_pool1d({t3}, {c})
F.adaptive_max_pool2d({t4}, ({c}, {p}))
ADA({t3})
F.conv1d({t3}, torch.ones({c}, {z1}, {c}, dtype=DT))
F.conv1d({t3}, torch.ones({z1}, 1, {c}, dtype=DT), groups={z1})
F.conv1d({t3}, torch.ones({z1}, 1, 3, dtype=DT), padding=1, groups={z1})
F.conv1d({t}.reshape(-1, 1, {zl}), torch.ones(2, 1, {c}, dtype=DT), stride={c})
F.conv1d({t}.reshape(-1, 1, {zl}), torch.ones(1, 1, {p}, dtype=DT))
F.conv1d({t3}, torch.ones(2, {z1}, {p}, dtype=DT), padding={p})
F.conv1d({t3}, torch.ones(2, {z1}, 2, dtype=DT), padding="same")
F.conv1d({t3}, torch.ones(2, {z1}, 2, dtype=DT), dilation={c})
F.conv2d({t4}, torch.ones(2, {z1}, 2, 2, dtype=DT), stride=2)
F.conv2d({t4}, torch.ones({z1}, 1, 3, 3, dtype=DT), padding=1, groups={z1})
F.conv_transpose1d({t3}, torch.ones({z1}, 2, {c}, dtype=DT), stride={c})
F.unfold({t4}, 2)
F.unfold({t4}, 2, stride=2)
F.fold(F.unfold({t4}, 2, stride=2), ({T}.shape[2], {T}.shape[3]), 2, stride=2)
F.fold(F.unfold({t4}, 3, padding=1), {T}.shape[2:], 3, padding=1)
F.pixel_shuffle({t4}, 2)
F.pixel_unshuffle({t4}, 2)
F.channel_shuffle({t4}, 2)
F.lp_pool1d({t3}, 2, {c})
F.grid_sample({t4}, torch.zeros({z0}, {p}, {p}, 2, dtype=DT), align_corners=False)
F.affine_grid(torch.eye(2, 3, dtype=DT).expand({z0}, 2, 3), [{z0}, 1, {zl}, {zl}])
F.local_response_norm({t3}, {c})
torch.fft.rfft({t}).abs()
torch.fft.irfft(torch.fft.rfft({t}), n={zl})
torch.fft.fftshift({t})
torch.stft({t1}, {p} * 2, return_complex=True, window=torch.ones({p} * 2, dtype=DT)).abs()"""

MODULES = """\
LIN({h})
LIN({h}) + {T}
LIN({h}).relu()
UP({h}).chunk(3, -1)[1]
{new}, {new}, {new} = UP({h}).chunk(3, dim=-1)
{new}, {new}, {new} = UP({h}).split(HID, -1)
UP({h3}).view({z0}, {z1}, 3, 2, -1).permute(2, 0, 3, 1, 4)[1]
UP({h3}).reshape({z0}, -1, 3, HID).unbind(2)[0]
LN({h})
LN({h} + POS[: {T}.shape[-2]])
{h3} + POS[: {z1}]
{h3} + POS[: {z1}].unsqueeze(0)
{h3} * POS[None, {n} % 8: {n} % 8 + {z1}]
GRU({h3})[0]
GRU({h3})[1]
GRU({h3}[:, : {n}])[0]
GRU({h3}, torch.zeros(1, {z0}, HID, dtype=DT))[0]
LSTM({h3})[0]
LSTM({h3})[1][0]
LSTM({h3})[0][:, -1]
LSTM({h3}, (torch.zeros(1, {z0}, HID, dtype=DT),) * 2)[0][:, {z1} - 1]
BILSTM({h3})[0]
MHA({h3}, {T}, {T})[0]
MHA({h3}, {T}, {T}, need_weights=False)[0]
MHA({h3}, {T}, {T})[1]
MHA({h3}, {T}, {T}, attn_mask=torch.ones({z1}, {z1}).triu(1).bool())[0]
MHA({h3}, {T}[:, : {p}], {T}[:, : {p}])[0]
ENC({h3})
ENCE({h3})
ENC({h3}, torch.triu(torch.full(({z1}, {z1}), -9.0, dtype=DT), 1))
CONV({h3}.mT).mT
CONV({h3}.transpose(1, 2)).transpose(1, 2) + {T}
CONVS({h3}.mT)
CONVT({h3}.mT)
CONV({h2}.t()[None])
CONV2({h4}.permute(0, 3, 1, 2))
CONV2({k4})
CONV2S({k4})
BN({h3}.mT)
BN({h3}.flatten(0, 1))
BN({h2})
BNE({h3}.mT)
BNE({h2})
BN2({k4})
BN2({h4}.permute(0, 3, 1, 2))
GN({k4})
GN({h3}.mT)
IN({h3}.mT)
DROP({t})
ROT({t3})
CACHE({h})
METER({t})
MIX({h3})
MIX({h2})
CONV({k3})
BN({k3})
CONVS({k3})"""

INPLACE = """\
{new} = {t}.clone();;{Y}[:, : {n}] = {f}
{new} = {t}.clone();;{Y}[..., {n}:] += {f}
{new} = {t}.clone();;{Y}[..., : {n}] = {n}
{new} = {t}.clone();;{Y}[{n}:] = {Y}[: 1]
{new} = {t}.clone();;{Y}[: {n}] = {T}[: {n}] * 2
{new} = {t}.clone();;{Y}[..., ::2] = {f}
{new} = {t}.clone();;{Y}[..., ::2] *= {n}
{new} = {t}.clone();;{Y}[..., -1] = {Y}[..., 0]
{new} = {t}.clone();;{Y}[{z0} - 1] = {f}
{new} = {t}.clone();;{Y}[-1].zero_()
{new} = {t}.clone();;{Y}[torch.arange({n})] = {f}
{new} = {t}.clone();;{Y}[torch.arange(0, {z0}, 2)] += 1
{new} = {t}.clone();;{Y}.index_put_((torch.arange({n}),), torch.tensor({f}, dtype=DT))
{new} = {t}.clone();;{Y}.index_add_(0, torch.arange({z0}), {v})
{new} = {t}.clone();;{Y}.index_copy_({d}, torch.arange({s}), {v})
{new} = {t}.clone();;{Y}.index_fill_({d}, torch.tensor([{s} - 1]), {f})
{new} = {t}.clone();;{Y}.scatter_(-1, {T}.argmax(-1, keepdim=True), {f})
{new} = {t}.clone();;{Y}.narrow({d}, 0, {n}).mul_({f})
{new} = {t}.clone();;{Y}.view(-1)[: {n}].add_({f})
{new} = {t}.clone();;{Y}.flatten()[: {n}] = 1.0
{new} = {t}.clone();;{Y}.select({d}, {n}).copy_({Y}.select({D}, 0))
{new} = {t}.clone();;{Y}.diagonal().fill_({f})
{new} = {t}.clone();;{Y}.fill_diagonal_({f})
{new} = {t}.clone();;{Y}.masked_fill_({T} > 0, {f})
{new} = {t}.clone();;{Y}[{T} > 0] = {f}
{new} = {t}.clone();;{Y}.copy_({v})
{new} = {t}.clone();;{Y}.mT.mul_({f})
{new} = {t}.clone();;{Y}.t_()
{new} = {t}.clone();;{Y}.unsqueeze_(0)
{new} = {t}.clone();;{Y} += {f}
{new} = {t}.clone();;{Y} /= {n}
{new} = {t} * 1;;{new} = {Y}[: {n}];;{Y} += 1
{new} = torch.zeros({T}.shape, dtype=DT);;{Y}[..., : {n}] = {t}[..., : {n}]
{new} = torch.zeros({p}, {zl}, dtype=DT);;{Y}[: {z0}] = 1
{new} = torch.empty({z0}, {p}, dtype=DT);;{Y}[:] = {f}
{new} = torch.zeros({z0}, {zl}, dtype=DT);;for i in range({z0}):;;    {Y}[i, i % {zl}] = i
{t} += {f}
{t} *= {f}
{t}.mul_({f})
{t}.add_({v}, alpha={f})
{t}[: {n}] = {f}
{t}[..., {n}:] -= 1
{t}.zero_()
{t}.fill_({f})
{t}.copy_({v})
{t}.narrow({d}, 0, {n}).add_(1)
{new} = {t}.new_zeros({p}, *{T}.shape);;{Y}[0] = {T}
torch.add({t}, {f}, out={T}.new_empty({T}.shape))
{new} = torch.empty_like({t});;torch.mul({T}, {f}, out={Y})
{new} = {t}.clone();;{Y}.squeeze_()
{new} = {t}.detach().clone();;{Y}.cumsum_({d})
{new} = {t}.clone();;torch.nn.init.constant_({Y}[: {n}], {f})"""

BRANCHES = """\
{y} = {t};;if {cond}:;;    {keep};;else:;;    {keep}
{y} = {t};;if {cond}:;;    {keep}
{y} = {t} if {cond} else {v}
{y} = {t} * (2 if {cond} else 3)
{y} = {t} + int({cond})
{y} = {t} * ({cond})
{y} = {t};;if {cond} and {cond}:;;    {keep}
{y} = {t};;if {cond} or {cond}:;;    {keep}
{y} = {t};;if {cond}:;;    {keep};;elif {cond}:;;    {keep};;else:;;    {keep}
assert {cond}, f"bad {{{t}.shape}}"
assert {t2}.shape[-1] == {T}.size(-1), f"bad {{{n}}}"
assert {n} < 1000, f"too large: {{{n}}}"
{y} = {t};;while {cond}:;;    {keep};;    break
{y} = {t};;{int} = {n};;while {N} > 1:;;    {N} //= 2;;    {y} = {y} + 1
{y} = {t};;{int} = {p};;while {N} % 4:;;    {N} += 1;;    {y} = {y} * 0.5
{y} = {t};;for i in range({p}):;;    {y} = {y} + i
{y} = {t};;for i in range({c}):;;    {y} = {y} * {f}
{y} = {t};;for i in range(0, {z0}, 2):;;    {y} = {y} + {T}[i].sum()
{y} = torch.stack([{t}[i] * i for i in range({z0})])
{y} = torch.stack([row.sum() for row in {t}])
{y} = {t};;for i, row in enumerate({T}):;;    {y} = {y} + row.sum() * i
{y} = torch.cat([{t}[i: i + 2].sum(0, keepdim=True) for i in range(0, {z0}, 2)])
{y} = torch.stack([part.sum() for part in {t}.split(2)])
{y} = torch.stack([part.sum() for part in {t}.chunk({c})])
{y} = sum(part.mean() for part in {t}.split({p}))
{y} = {t};;for a, b in zip({T}.shape, {u}.shape):;;    {y} = {y} + a * b
{y} = {t};;for a in {T}.shape:;;    {y} = {y} / a
{y} = {t};;for a in range({T}.dim()):;;    {y} = {y} + {T}.shape[a]
{y} = {t};;for a in range({n}, {n}):;;    {y} = {y} + a
{y} = {t};;match {n}:;;    case 2 | 4:;;        {keep};;    case _:;;        {keep}
{y} = {t};;try:;;    {y} = {y} * TABLE[{n}];;except IndexError:;;    {keep}
{y} = {t};;if {y}.sum() > {n}:;;    {keep}"""

CONDITIONS = """\
{n} > {c}
{n} > 5
{n} >= {n}
{n} == {n}
{n} != {n}
{n} < {n}
{n} % 2 == 0
{n} % {c}
{n} in (2, 4)
{n} not in [3, 5, 7]
{n} in {{2, 3, 5, 8}}
{c} < {n} <= 9
{t}.shape == {u}.shape
{t}.shape != {v}.shape
{t}.shape[0] == {u}.shape[-1]
{t}.shape[-1] < {u}.shape[0]
{t}.size(0) * 2 == {u}.size(-1)
{t}.shape > (3, 3)
{t}.shape[: 2] == (4, 5)
{t}.shape == (4, 5)
tuple({t}.shape) == (4, HID)
max({t}.shape) > 7
min({t}.shape) == {c}
sum({t}.shape) > 12
any(d % 2 for d in {t}.shape)
all(d > 2 for d in {t}.shape)
{t}.numel() > 24
{t}.numel() == {u}.numel()
len({t}) == {c}
not {n} - {c}
bool({n} - 2)
{n} is {n}
{n} is 4
{n} & 1
{n} // 2 == {n} // 2
({n}).bit_length() > 2
{n} / 2 > {f}
{f} > 1
math.isclose({f}, {f})
isinstance({n}, int)
{n} == 4.0
{n} > 3.5
str({n}) == "4"
{n} == True
{t}.is_contiguous()
{t}.stride(0) > 6
{t}.stride() == {u}.stride()
{t}.nbytes > 99
{t}.dim() == 3
{t}.shape is {T}.shape
{n} in {t}.shape
({n}, {n}) < ({c}, {c})
({n}, {c}) == ({n}, {c})
[{n}] == [{n}]
(d := {n}) > 2 and d % 3
{t}.shape[-1] == HID
{t}.shape[0] == CFG.k
{t}.shape[0] == GK
hash({n}) % 2
{t}.same_size({u}) if hasattr({t}, "same_size") else {n} > 2
{t}.is_same_size({u})
{t}.size() == {u}.size()
{t}.shape[:-1] == {u}.shape[:-1]
{t}.stride(-1) == 1
{t}.storage_offset() == 0"""

KEEPS = """\
{y} = {y} * {f}
{y} = {y} + {n}
{y} = {y} + 1
{y} = {y} * 2
{y} = {y} - {y}.mean()
{y} = {y}.flip(-1)
{y} = {y}.roll({n}, -1)
{y} = {y} / {n}
{y} = {y}.cumsum(0)
pass"""

# The first lines that are what everybody writes.
PLAIN_INTS = 12
INTS = """\
{int} = {n}
{int} = {n}
{int} = {t}.shape[{d}]
{int} = {t}.size({d})
{int}, {int} = {t2}.shape
{int}, {int}, {int} = {t3}.shape
{int}, {int}, _ = {t3}.size()
{int}, *_ = {t}.shape
*_, {int} = {t}.shape
{int}, {int} = {t}.shape[: 2]
{int}, {int} = {t}.shape[-2:]
({int}, {int}), _ = {t}.shape[: 2], 1
{int}, {int} = divmod({n}, {c})
{int}, {int} = {n}, {n}
{int} = len({t})
{int} = {t}.numel()
{int} = {t}.shape.numel()
{int} = {t}.nelement()
{int} = math.prod({t}.shape[1:])
{int} = math.prod({t}.shape)
{int} = functools.reduce(operator.mul, {t}.shape)
{int} = max({t}.shape)
{int} = min({t}.shape)
{int} = sum({t}.shape)
{int} = sorted({t}.shape)[0]
{int} = sorted({t}.shape)[-1]
{int} = {t}.shape.index({zl})
{int} = {t}.shape.count({z0})
{int} = list({t}.shape)[{d}]
{int} = [*{t}.shape][-1]
{int} = tuple({t}.shape)[0]
{int} = next(iter({t}.shape))
{int} = getattr({t}, "shape")[0]
{int} = {t}.__len__()
{int} = {t}.shape.__getitem__(-1)
{int} = operator.itemgetter({d})({t}.shape)
{int} = dict(zip("abcd", {t}.shape))["a"]
{int} = {{"n": {n}, "m": {c}}}["n"]
{int} = Shape({z0}, {zl}).b
{int} = Shape(*{t2}.shape).a
{int} = Box({t}.shape).half
{int} = Box({t}.shape).last
{int} = Spec({n}, {c}).area()
{int} = dataclasses.replace(Spec(), n={n}).n
{int} = half_of({n})
{int} = torch.Size(({n}, {c})).numel()
{int} = torch.Size([{n}, {p}])[0]
{int} = np.prod({t}.shape)
{int} = int(np.prod({t}.shape))
{int} = np.int64({n}) + 1
{int} = {t}.stride(0)
{int} = {t}.stride()[-2]
{int} = {t}.nbytes
{int} = {t}.untyped_storage().nbytes() // 4
{int} = len({t}.tolist())
{int} = {t}.storage_offset()
{int} = {t}.dim()
{int} = len(f"{{{t}.shape}}")
{int} = len(str({n}))
{int} = int(f"{{{n}}}")
{int} = int("%d" % {n})
{int} = len(range({n}))
{int} = len(range(0, {n}, {c}))
{int} = len([0] * {p})
{int} = sum(range({n}))
{int} = sum(d > 3 for d in {t}.shape)
{int} = sum(1 for d in {t}.shape if d % 2)
{int} = (lambda m: m + {c})({n})
{int} = (lambda m={n}: m * 2)()
{int} = [{n}, {n}, {n}][{c} % 3]
{int} = [{n}, {n}].pop()
{int} = max([{n}, {n}, 3])
{int} = min(map(int, {t}.shape))
{int} = int({n} if {cond} else {n})
{int} = {n} or {c}
{int} = {n} and {n}
{int} = +{n}
{int} = ~{n}
{int} = int(TABLE[{n} % 5])
{int} = ({n}).__add__({c})
{int} = pow({n}, 2)
{int} = pow({n}, 2, {c} + 4)
{int} = operator.index({n})
{int} = int(np.sqrt({n}))
{int} = int(math.log2({p}) + 1)
{int} = {n} if {n} > {c} else {c}
{int} = torch.tensor({n}).item()
{int} = torch.arange({n}).numel()
{int} = torch.zeros({n}, 2).shape[0]
{int} = torch.tensor({t}.shape).max().item()
{int} = {t}.argmax().item() % {zl}
{int} = ({t} > 0).sum().item()
{int} = int({t}.abs().sum().item()) % 4 + 1
{int} = {i}.flatten()[0].item() + {c}
{int} = {i}.max().item() % {n}
{int} = math.gcd({n}, {c})
{int} = math.comb({p}, 2)
{int} = math.isqrt({p} * {p})
{int} = math.floor({f})
{int} = math.ceil({n} / {c}) * {c}
{int} = round({n} * 0.75)
{int} = bool({n})
{int} = {n} > {c}
{int} = {n} is not None
{int} = isinstance({t}.shape, tuple) + 1
{int} = {t}.shape[0] if {t}.dim() > 1 else {c}
{int} = {t}.ndim * {n}"""

STATE = """\
CFG.n = {n}
CFG.n = {z0};;{new} = {t} * CFG.n
{t} * CFG.n
{t} * CFG.k
{t}[..., : CFG.k]
{t} + CFG.k
{t}[: CFG.n]
{int} = CFG.k
{int} = CFG.n
{int} = CFG.k + {z0}
{int} = GK
{int} = GK * {n}
{t} * GK
{t} / TABLE[{n} % 5]
{t} * TABLE[{n} % 3]
{t} * NAMED.get({n}, 1.5)
{t} * (NAMED[{n}] if {n} in NAMED else 2.0)
CFG.sizes[{n}] = 1
CFG.sizes["n"] = {n}
CFG.sizes[{t}.shape] = {f};;{new} = {T} * CFG.sizes[{T}.shape]
CFG.seen.append({n})
CFG.seen.append(tuple({t}.shape))
CFG.last = {t}.detach()
{y} = {t};;if CFG.last is not None and CFG.last.shape == {T}.shape:;;    {keep}
{y} = {t} + (0 if CFG.last is None else CFG.last.shape[0]);;CFG.last = {T}.detach()
setattr(CFG, "n", {n})
CFG.shape = {t}.shape;;{new} = {T} * CFG.shape[-1]
CFG.text = f"{{{t}.shape}}"
CFG.text = str({n})
global GK;;GK = {n}
def inner(v):;;    return v * {n};;{new} = inner({t})
{int} = {n};;def inner(v):;;    return v * {N};;{new} = inner({t})
{int} = {n};;inner = lambda v: v[..., : {N}];;{new} = inner({t})
{int} = {n};;inner = functools.partial(torch.mul, {N});;{new} = inner({t})
{int} = {n};;inner = lambda v, m={N}: v + m;;{new} = inner({t})
{new} = list(map(lambda d: {t} * d, {T}.shape))[-1]
{new} = {t} * {f};;CFG.n += 1
CFG.n = max(CFG.n, {n});;{new} = {t} * CFG.n
CFG.n = CFG.n + {n};;{new} = {t} * CFG.n
{int} = CFG.n;;CFG.n = {n}
if not hasattr(CFG, "cache") or CFG.cache.shape[0] < {z0}:;;    CFG.cache = torch.arange({z0}).to(DT);;{new} = {t} * CFG.cache[: {z0}].sum()
box = Box({t}.shape);;{new} = {T} * box.first / box.last
box = Spec(n={n});;box.m = {n};;{new} = {t} + box.area()
rows = [{n}, {c}];;rows[1] = {n};;{new} = {t} * rows[1]
names = dict(a={n});;names["b"] = names["a"] + 1;;{new} = {t} * names["b"]
{new} = {t} * float(f"{{{n}}}")
{new} = {t} * len(f"{{{n}}}")
{new} = {t} + hash({n})
{new} = {t} * {n}.real
{new} = {t} + id({n}) * 0
{new} = {t} * sum(i for i in range({n}))"""

INNER_STEP = """\
loss = ({t} * {T}).mean();;loss.backward();;with torch.no_grad():;;    for p in PARAMS:;;        if p.grad is not None:;;            p -= 0.1 * p.grad;;            p.grad = None;;{new} = loss.detach()
loss = {t}.sum() / {z0};;OPT.zero_grad();;loss.backward();;OPT.step();;{new} = loss.detach()
loss = {t}.square().sum() / {T}.numel();;loss.backward();;{new} = loss.detach()
grads = torch.autograd.grad({t}.square().mean(), PARAMS, allow_unused=True);;{new} = sum(g.sum() for g in grads if g is not None)"""

FAMILIES = {
    "views": VIEWS,
    "parts": PARTS,
    "makes": MAKES,
    "computes": COMPUTES,
    "products": PRODUCTS,
    "indices": INDICES,
    "pools": POOLS,
    "modules": MODULES,
    "inplace": INPLACE,
    "branches": BRANCHES,
    "ints": INTS,
    "state": STATE,
}


def leave_out(pattern: str) -> None:
    """Takes templates away, those of what is known to differ."""
    for name, lines in FAMILIES.items():
        FAMILIES[name] = "\n".join(
            one for one in lines.splitlines() if not re.search(pattern, one)
        )
