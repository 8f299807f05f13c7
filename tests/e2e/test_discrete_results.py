"""What users tell from eager by more than rounding: indices among equal
values, signs of zeros, NaNs and infinities, whole numbers. torch's own list of
operators, with inputs full of such values, and the ones that programs use most.
"""

import warnings

import pytest
import torch
from torch.nn import functional
from torch.testing._internal.common_methods_invocations import op_db

import mica

# Values, and how far results may lie from eager's.
TOLERANCES = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float64: 1e-9}
INFINITE = [0.0, -0.0, torch.nan, torch.inf, -torch.inf, 1, 1, 2, -2.5, 3.5]
TIED = [0.0, -0.0, 1, 1, 0.0, 2, 2, 1, -1, -1]

# Draw numbers, or tell what memory held.
ARBITRARY = (
    "empty",
    "new_empty",
    "bernoulli",
    "multinomial",
    "normal",
    "rand",
    "nn.functional.dropout",
    "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product",
    "nn.functional.fractional",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "uniform",
    "svd_lowrank",
    "pca_lowrank",
)
# Sums of which Mica's are of another order: infinities that meet in a Welford
# mean, or that zeros of a padding meet, make NaNs in one and not in the other;
# a sum of cancelling numbers is a zero of either sign. ATen's error function
# makes NaN of infinity, and so does its gelu. Not mended yet: zeros of averages
# over windows.
OF_SUMS = (
    "addmm",
    "bmm",
    "std_mean",
    "var_mean",
    "native_batch_norm",
    "_native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "nn.functional.avg_pool",
    "nn.functional.batch_norm",
    "nn.functional.binary_cross_entropy_with_logits",
    "nn.functional.conv",
    "nn.functional.cosine_similarity",
    "nn.functional.gelu",
    "nn.functional.group_norm",
    "nn.functional.instance_norm",
    "nn.functional.layer_norm",
    "nn.functional.linear_cross_entropy",
    "native_dropout_backward",
    "trap",
)
# Whose numbers are undefined where a number is no whole one, or too large.
UNDEFINED = ("int", "long", "short", "char", "byte", "nn.functional.embedding")


def refill(value, pattern, seed):
    """`value` with the numbers of its tensors drawn from a pattern."""
    if isinstance(value, torch.Tensor):
        if not value.is_floating_point():
            return value.detach().clone()
        generator = torch.Generator().manual_seed(seed)
        at = torch.randint(len(pattern), value.shape, generator=generator)
        filled = torch.tensor(pattern, dtype=value.dtype)[at]
        if pattern is TIED and filled.dim() > 1:
            filled = filled.mT.contiguous().mT
        return filled
    if type(value) in (list, tuple):
        return type(value)(
            refill(item, pattern, seed + i + 1) for i, item in enumerate(value)
        )
    if isinstance(value, dict):
        return {
            key: refill(item, pattern, seed + 17) for key, item in value.items()
        }
    return value


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []


def difference(want, got):
    """What tells the tensors apart but rounding; "" if nothing does."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return "another kind"
    if not want.is_floating_point():
        return "" if torch.equal(want, got) else "another integer"
    if not torch.equal(want.isnan(), got.isnan()):
        return "another NaN"
    want, got = want[~want.isnan()], got[~got.isnan()]
    if not torch.equal(want.isinf(), got.isinf()):
        return "another infinity"
    zeros = (want == 0) & (got == 0)
    if not torch.equal(want[zeros].signbit(), got[zeros].signbit()):
        return "another sign of zero"
    bound = TOLERANCES[want.dtype]
    close = torch.allclose(want, got, rtol=bound, atol=bound)
    return "" if close else "another value"


def differences(f, *args):
    """As difference(), of what a hit gives."""
    compiled = mica.compile(f)
    want = tensors_of(f(*args))
    for _ in range(3):
        got = tensors_of(compiled(*args))
    if not mica.explain(compiled).hits:
        return []
    found = [
        difference(a, b)
        for a, b in zip(want, got, strict=True)
        if a.dtype in TOLERANCES
        or not (a.is_complex() or a.is_floating_point())
    ]
    return [one for one in found if one]


def samples_of(op, dtype):
    torch.manual_seed(0)
    try:
        # Not op.sample_inputs(), which looks through the whole stack.
        samples = list(op.sample_inputs_func(op, "cpu", dtype, False))
    except (RuntimeError, ValueError, AssertionError, ImportError):
        return []
    return samples[:: max(1, len(samples) // 3)][:3]


GROUPS = 16
# Of linear algebra what doesn't decompose: LAPACK crashes on infinities.
PLAIN_LINALG = ("vector_norm", "norm", "cross", "diagonal", "vecdot", "vander")
OPS = [
    op
    for op in op_db
    if not op.name.startswith((*ARBITRARY, *OF_SUMS))
    and op.name not in UNDEFINED
    and not op.name.startswith(
        ("jiterator", "torch.ops", "sparse", "lu", "cholesky")
    )
    and (
        not op.name.startswith("linalg")
        or op.name.removeprefix("linalg.") in PLAIN_LINALG
    )
]


@pytest.mark.parametrize("group", range(GROUPS))
def test_operators_give_eagers_discrete_results(group):
    found = {}
    for op in OPS[group::GROUPS]:
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
            if dtype not in op.dtypes:
                continue
            patterns = [INFINITE, TIED] if dtype.is_floating_point else [TIED]
            for i, sample in enumerate(samples_of(op, dtype)):
                for pattern in patterns:
                    told = differences_of(op, sample, pattern, i)
                    if told:
                        name = f"{op.name} {op.variant_test_name} {dtype}"
                        found.setdefault(name, told)
    assert found == {}


def differences_of(op, sample, pattern, seed):
    function = op.get_op()
    args = refill((sample.input, sample.args, sample.kwargs), pattern, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(args[0], *args[1], **args[2])
        except (RuntimeError, IndexError, ValueError, TypeError):
            return []  # Not with such values.
        return differences(
            lambda input, args, kwargs: function(input, *args, **kwargs), *args
        )


SHAPES = [(1,), (3,), (4, 1), (1, 4), (3, 17), (2, 3, 4), (0,), (0, 3), (257,)]
REDUCTIONS = "sum mean prod nansum amax amin max min cumsum cumprod".split()
UNARY = (
    "relu round trunc ceil floor sign abs neg sqrt rsqrt reciprocal sin tanh "
    "exp expm1 log1p sigmoid erf asin atan frac square"
).split()
FORMS = {
    "clamp": lambda t: t.clamp(0, 1),
    "clamp_min": lambda t: t.clamp(min=0),
    "clamp_max": lambda t: t.clamp(max=-0.0),
    "maximum": lambda t: torch.maximum(t, torch.zeros_like(t)),
    "minimum": lambda t: torch.minimum(torch.zeros_like(t), t),
    "hardtanh": functional.hardtanh,
    "leaky": functional.leaky_relu,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "threshold": lambda t: functional.threshold(t, 0, 0),
    "times -1": lambda t: t * -1,
    "plus 0": lambda t: t + 0,
    "minus 0": lambda t: t - 0,
    "0 minus": lambda t: 0 - t,
    "power": lambda t: t**3,
    "halves": lambda t: t // 2,
    "rest": lambda t: t % 2,
    "where": lambda t: torch.where(t >= 0, t, -t),
}
PICTURES = {
    "nearest": lambda t: functional.interpolate(t, scale_factor=2),
    "bilinear": lambda t: functional.interpolate(
        t, scale_factor=2, mode="bilinear"
    ),
    "edges": lambda t: functional.pad(t, (0, 1, 1, 0), mode="replicate"),
}


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_zeros_have_eagers_sign(dtype):
    found = {}
    for shape in SHAPES:
        negative = torch.full(shape, -0.0, dtype=dtype)
        mixed = negative.clone()
        mixed.view(-1)[::2] = 0
        for zeros in (negative, mixed):
            cases = dict(FORMS)
            cases |= {name: getattr(torch, name) for name in UNARY}
            for name in REDUCTIONS:
                for dim in range(len(shape)):
                    cases[f"{name} {dim}"] = lambda t, name=name, dim=dim: (
                        getattr(torch, name)(t, dim=dim)
                    )
            if len(shape) == 2 and zeros.numel():
                for name, picture in PICTURES.items():
                    cases[name] = lambda t, f=picture: f(t[None, None])
            for name, f in cases.items():
                try:
                    f(zeros)
                except (RuntimeError, IndexError):
                    continue
                if told := differences(f, zeros):
                    found[name, shape] = told
    assert found == {}


QUOTIENTS = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "fmod": torch.fmod,
    "// number": lambda a, _: a // 0.3,
    "% number": lambda a, _: a % 0.3,
    "number //": lambda _, b: 3 // b,
    "in place": lambda a, b: a.clone().floor_divide_(b),
    "cut in place": lambda a, b: a.clone().div_(b, rounding_mode="trunc"),
    "round": lambda a, _: a.round(),
}


@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64]
)
def test_whole_numbers_of_quotients_are_eagers(name, dtype):
    for count in (7, 1000, 5000):
        a = (torch.randn(count) * 20).to(dtype)
        b = (torch.randn(count) * 3).to(dtype)
        a[::5], b[::5] = a[::5].round(), b[::5].round()
        compiled = mica.compile(QUOTIENTS[name])
        for _ in range(3):
            got = compiled(a, b)
        want = QUOTIENTS[name](a, b)
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
        assert mica.explain(compiled).hits == 2


ORDERS = {
    "topk": lambda x: torch.topk(x, 3),
    "smallest": lambda x: torch.topk(x, 5, largest=False),
    "sort": lambda x: torch.sort(x),
    "sort down": lambda x: torch.sort(x, descending=True),
    "sort stable": lambda x: torch.sort(x, stable=True),
    "argsort": torch.argsort,
    "argsort down": lambda x: x.argsort(0, descending=True),
    "kthvalue": lambda x: torch.kthvalue(x, 4),
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min(0),
    "argmax": lambda x: (x.argmax(), x.argmax(-1), x.argmin(0)),
    "median": lambda x: (*x.median(-1), x.median()),
    "mode": lambda x: x.mode(-1),
    "unique": lambda x: x.unique(return_inverse=True, return_counts=True),
    "cummax": lambda x: (*x.cummax(-1), *x.cummin(0)),
    "router": lambda x: torch.topk(torch.softmax(x, -1), 2)[1],
    "relu": lambda x: torch.relu(x - 1).topk(4)[1],
    "pool": lambda x: functional.max_pool1d(x[None], 3, return_indices=True),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_which_of_equal_values_is_taken_is_eagers(name, dtype):
    for shape in ((8,), (3, 9), (5, 200), (2, 2000)):
        for values in (1, 2, 3, 50):
            x = torch.randint(0, values, shape).to(dtype)
            try:
                want = tensors_of(ORDERS[name](x))
            except (RuntimeError, NotImplementedError):
                continue
            compiled = mica.compile(ORDERS[name])
            for _ in range(4):
                got = tensors_of(compiled(x))
            for a, b in zip(want, got, strict=True):
                assert torch.equal(a, b)
            assert mica.explain(compiled).hits >= 2


ZEROS = torch.tensor([0.0, -0.0, 1, -1, -0.0, -0.0, 0, 0] * 8).reshape(
    1, 4, 4, 4
)


@pytest.mark.parametrize("zeros", [ZEROS, torch.full_like(ZEROS, -0.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "program",
    [
        functional.gelu,
        lambda x: functional.gelu(x, approximate="tanh"),
        functional.softshrink,
        lambda x: functional.layer_norm(x, (4,)),
        lambda x: functional.layer_norm(x, (4,), torch.ones(4).to(x)),
        lambda x: functional.max_pool2d(x, 2),
        lambda x: functional.max_pool2d(x, 3, 1, 1),
        lambda x: functional.max_pool1d(x[0], 2),
        lambda x: functional.adaptive_max_pool2d(x, 2),
    ],
)
def test_zeros_have_eager_s_signs(program, dtype, zeros):
    compiled = mica.compile(program)
    x = zeros.to(dtype)
    for _ in range(2):
        result = compiled(x)
    want = program(x)
    is_zero = want == 0
    assert torch.equal(is_zero, result == 0)
    assert torch.equal(want.signbit() & is_zero, result.signbit() & is_zero)
    assert mica.explain(compiled).hits == 1
