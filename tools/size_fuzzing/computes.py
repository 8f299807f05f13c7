# ruff: noqa: E501
"""Templates of what computes with tensors. See templates.py."""

from __future__ import annotations

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
