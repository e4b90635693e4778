"""Recognition by structure and constants, @optimize and substitute()."""

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed in the test environment")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import opforge  # noqa: E402
from opforge.torch.formulas import NotPlain  # noqa: E402
from opforge.torch.recogniser import recognise  # noqa: E402

EVERYTHING = lambda name: True  # noqa: E731


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- Formulas as other libraries write them ---


def llama_rms(x, w, eps=1e-5):
    dtype = x.dtype
    h = x.to(torch.float32)
    variance = h.pow(2).mean(-1, keepdim=True)
    h = h * torch.rsqrt(variance + eps)
    return w * h.to(dtype)


def gemma_rms(x, w):
    output = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    return (output * (1.0 + w.float())).type_as(x)


def t5_rms(x, w):
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6) * w


def hand_layer_norm(x, w, b):
    u = x.mean(-1, keepdim=True)
    s = (x - u).pow(2).mean(-1, keepdim=True)
    x = (x - u) / torch.sqrt(s + 1e-12)
    return w * x + b


def var_layer_norm(x, w, b):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) * torch.rsqrt(var + 1e-5) * w + b


def new_gelu(x):
    inner = x + 0.044715 * torch.pow(x, 3.0)
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * inner))


def fast_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))


def bert_gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def safe_softmax(x):
    e = torch.exp(x - x.max(dim=-1, keepdim=True)[0])
    return e / e.sum(dim=-1, keepdim=True)


def swiglu(x):
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def sliced_swiglu(x):
    d = 8
    return x[..., :d] * torch.sigmoid(x[..., :d]) * x[..., d:]


def add_norm(x, r, w):
    h = x + r
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * w, h


X, W, B, R = draw(3, 16), draw(16, seed=1), draw(16, seed=2), draw(3, 16, seed=3)

RECOGNISED = [
    (llama_rms, (X, W), "norm.rms_norm", {"eps": 1e-5}),
    (gemma_rms, (X, W), "norm.rms_norm", {"eps": 1e-6, "zero_centered": True}),
    (t5_rms, (X, W), "norm.rms_norm", {"eps": 1e-6}),
    (lambda x, w: F.rms_norm(x, (16,), w, 1e-4), (X, W), "norm.rms_norm", {"eps": 1e-4}),
    (hand_layer_norm, (X, W, B), "norm.layer_norm", {"eps": 1e-12}),
    (var_layer_norm, (X, W, B), "norm.layer_norm", {"eps": 1e-5}),
    (lambda x, w, b: F.layer_norm(x, (16,), w, b), (X, W, B), "norm.layer_norm", {"eps": 1e-5}),
    (lambda x, w, b: torch.layer_norm(x, [16], weight=w, bias=b), (X, W, B), "norm.layer_norm",
     {"eps": 1e-5}),
    (new_gelu, (X,), "activation.gelu", {"form": "tanh"}),
    (fast_gelu, (X,), "activation.gelu", {"form": "tanh"}),
    (bert_gelu, (X,), "activation.gelu", {"form": "erf"}),
    (lambda x: F.gelu(x), (X,), "activation.gelu", {"form": "erf"}),
    (safe_softmax, (X,), "reduction.softmax", {}),
    (lambda x: x.softmax(dim=1), (X,), "reduction.softmax", {}),
    (lambda x: F.softmax(x, dim=-1, dtype=torch.float32), (X,), "reduction.softmax", {}),
    (swiglu, (X,), "activation.silu_and_mul", {}),
    (sliced_swiglu, (X,), "activation.silu_and_mul", {}),
    (add_norm, (X, R, W), "norm.fused_add_rms_norm", {"eps": 1e-6}),
]


def named(function, tensors):
    import inspect

    bound = inspect.signature(function).bind(*tensors)
    bound.apply_defaults()
    return dict(bound.arguments)


@pytest.mark.parametrize("row", RECOGNISED, ids=lambda row: getattr(row[0], "__name__", ""))
def test_recognised(row):
    function, tensors, op, attributes = row
    found = recognise(function, named(function, tensors), EVERYTHING)
    assert found.op == op
    assert found.attributes.keys() == attributes.keys()
    for name, value in attributes.items():
        assert found.attributes[name] == pytest.approx(value, rel=1e-9) if isinstance(
            value, float) else found.attributes[name] == value


MISTAKEN = {
    "epsilon outside the root": lambda x, w: x / (
        torch.sqrt((x * x).mean(-1, keepdim=True)) + 1e-6) * w,
    "epsilon inside the mean": lambda x, w: x * torch.rsqrt(
        (x * x + 1e-6).mean(-1, keepdim=True)) * w,
    "a sum for a mean": lambda x, w: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) * w,
    "over the first dim": lambda x, w: x * torch.rsqrt((x * x).mean(0, keepdim=True) + 1e-6) * w,
    "dropout": lambda x, w: F.dropout(llama_rms(x, w), 0.1),
    "a mask": lambda x, w: torch.softmax(x + w, -1),
    "a scale": lambda x, w: torch.softmax(x * 0.5, -1),
    "a bias": lambda x, w: llama_rms(x, w) + 1.0,
    "unbiased variance": lambda x, w: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(
        x.var(-1, keepdim=True) + 1e-5) * w,
    "no epsilon": lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True)) * w,
    "another constant": lambda x, w: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * x**3))),
    "another cubic": lambda x, w: 0.5 * x * (1 + torch.tanh(
        math.sqrt(2 / math.pi) * (x + 0.0447 * x**3))),
    "halves that changed places": lambda x, w: x.chunk(2, -1)[0] * F.silu(x.chunk(2, -1)[1]),
    "unequal parts": lambda x, w: F.silu(x[..., :4]) * x[..., 4:8],
    "twice the same": lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * x,
    "in place": lambda x, w: llama_rms(x.add_(1), w),
    "a side effect": lambda x, w: (w.mul_(2), torch.softmax(x, -1))[1],
    "two weights": lambda x, w: llama_rms(x, w) * w,
    "control flow": lambda x, w: x if x.sum() > 0 else w,
    "two outputs": lambda x, w: (torch.softmax(x, -1), x),
}


@pytest.mark.parametrize("what", sorted(MISTAKEN))
def test_what_differs_is_not_mistaken(what):
    with pytest.raises(NotPlain):
        recognise(MISTAKEN[what], {"x": X.clone(), "w": W.clone()}, EVERYTHING)


# --- optimize ---


def optimized(function, context, **options):
    options = {"budget": 0, "least_speedup": 0.0, **options}
    return opforge.torch.optimize(context=context, **options)(function)


def test_optimize_serves_by_the_operator(torch_context):
    f = optimized(llama_rms, torch_context)
    x, w = draw(64, 128), draw(128, seed=1)
    with opforge.trace() as trace:
        y = f(x, w)
        again = f(x, w)
    torch.testing.assert_close(y, llama_rms(x, w), rtol=1e-5, atol=1e-6)
    assert torch.equal(again, y)
    assert trace.records[-1].op == "norm.rms_norm" and trace.records[-1].attributes["eps"] == 1e-5
    (decision,) = f.explain()
    assert decision.optimized and decision.operator == "norm.rms_norm" and decision.speedup > 0
    assert "rms_norm.cpu" in decision.served_by
    f(x, w, eps=0.5)  # another constant: looked at anew
    torch.testing.assert_close(f(x, w, eps=0.5), llama_rms(x, w, eps=0.5), rtol=1e-5, atol=1e-6)
    f(draw(3, 128), w)
    assert len(f.explain()) == 3
    assert f.__name__ == "llama_rms"


def test_optimize_differentiates(torch_context):
    f = optimized(new_gelu, torch_context)
    x = draw(8, 64).requires_grad_()
    truth = x.detach().double().requires_grad_()
    f(x).square().sum().backward()
    new_gelu(truth).square().sum().backward()
    torch.testing.assert_close(x.grad, truth.grad.float(), rtol=1e-4, atol=1e-5)


def test_optimize_of_several_outputs(torch_context):
    f = optimized(add_norm, torch_context)
    x, r, w = draw(8, 64), draw(8, 64, seed=1), draw(64, seed=2)
    y, h = f(x, r, w)
    torch.testing.assert_close((y, h), add_norm(x, r, w), rtol=1e-5, atol=1e-6)
    assert f.explain()[0].operator == "norm.fused_add_rms_norm"
    assert torch.equal(r, draw(8, 64, seed=1))  # the caller's tensors stay as they are


@pytest.mark.parametrize(
    "function, options, reason",
    [
        (lambda x: F.dropout(x, 0.5), {}, "not recognised: dropout"),
        (lambda x: torch.cumsum(x, 0), {}, "not recognised: "),
        (lambda x: torch.softmax(x, -1), {"least_speedup": 1e6}, "not faster"),
        (lambda *xs: xs[0], {}, "not recognised: "),
    ],
)
def test_optimize_leaves_the_function(torch_context, function, options, reason):
    f = optimized(function, torch_context, **options)
    torch.manual_seed(3)
    y = f(X)
    torch.manual_seed(3)
    assert torch.equal(y, function(X)) or "dropout" in reason
    (decision,) = f.explain()
    assert not decision.optimized and decision.reason.startswith(reason)


def test_optimize_refuses_a_wrong_operator(torch_context, monkeypatch):
    """Were recognition wrong, comparing with the function itself finds it."""
    from opforge.torch import optimizer as module
    from opforge.torch.patterns import Match

    wrong = Match("activation.gelu", {"x": "x"}, {"form": "tanh"}, 1, ())
    monkeypatch.setattr(module, "recognise", lambda *a: wrong)
    f = optimized(lambda x: F.gelu(x) * 1.001, torch_context)
    assert torch.equal(f(X), F.gelu(X) * 1.001)
    assert "errs by" in f.explain()[0].reason


def test_optimize_without_a_pack(torch_context):
    empty = opforge.Context()
    f = optimized(lambda x: torch.softmax(x, -1), empty)
    assert torch.equal(f(X), torch.softmax(X, -1))
    assert "the budget is 0" in f.explain()[0].reason


# --- substitute ---


class LlamaRMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.variance_epsilon = 1e-6

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class NewGELU(nn.Module):
    def forward(self, x):
        return new_gelu(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.act = NewGELU()
        self.down = nn.Linear(2 * width, width)
        self.second = LlamaRMSNorm(width)
        self.exact = nn.GELU()
        self.columns = nn.Softmax(dim=0)
        self.rows = nn.Softmax(dim=-1)

    def forward(self, x):
        x = x + self.down(self.act(self.up(self.first(x))))
        return self.rows(self.exact(self.second(x)))


def test_substitute(torch_context):
    import copy

    torch.manual_seed(0)
    model = Block(32)
    model.second.weight.data = draw(32, seed=5)
    original = copy.deepcopy(model)
    x = draw(6, 32)
    report = opforge.torch.substitute(model, context=torch_context)
    assert report.replaced == {
        "first": "norm.layer_norm", "act": "activation.gelu", "second": "norm.rms_norm",
        "exact": "activation.gelu", "rows": "reduction.softmax"}
    assert "only the last one" in report.left["columns"]
    assert "Linear" in report.left["up"] and "replaced first" in str(report)
    torch.testing.assert_close(model(x), original(x), rtol=1e-5, atol=1e-6)
    assert report.served == dict.fromkeys(report.replaced, 1) and not report.fell_back
    assert isinstance(model.first, nn.LayerNorm)
    assert model.state_dict().keys() == original.state_dict().keys()
    # It trains, with the same gradients.
    model(x).square().sum().backward()
    original(x).square().sum().backward()
    for a, b in zip(model.parameters(), original.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)
    # What the pack has no kernel for is served by the module's own code.
    wide = copy.deepcopy(model).double()
    wide(x.double())
    assert report.fell_back.keys() == report.replaced.keys()


def test_coverage_of_a_substituted_model(torch_context, pack):
    model = nn.Sequential(nn.LayerNorm(16), nn.Softmax(dim=-1))
    opforge.torch.substitute(model, context=torch_context)
    with opforge.trace() as trace, torch.no_grad():
        model(draw(4, 16))
    found = opforge.coverage(trace, pack)  # it has softmax, and no layer_norm
    assert {row.op: row.covered for row in found.rows} == {
        "norm.layer_norm": False, "reduction.softmax": True}
    assert 0 < found.share < 1
