"""Gradients: to_autograd and to_custom_op beside PyTorch's own formulas in double."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed in the test environment")

from torch.nn import functional  # noqa: E402

import opforge  # noqa: E402
from opforge import errors  # noqa: E402

F = functional


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rms(x, w, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w


CASES = {
    "activation.gelu": (
        (8, 32), (), {"form": "tanh"}, lambda x, **a: F.gelu(x, approximate="tanh")),
    "activation.silu_and_mul": (
        (8, 32), (), {}, lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]),
    "norm.layer_norm": (
        (8, 32), ((32,), (32,)), {"eps": 1e-5},
        lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps)),
    "norm.rms_norm": ((8, 32), ((32,),), {"eps": 1e-5}, lambda x, w, eps: rms(x, w, eps)),
    "reduction.softmax": ((8, 32), (), {}, lambda x: torch.softmax(x, -1)),
}


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("how", ["autograd", "custom_op"])
def test_gradients_are_those_of_the_formula(torch_context, name, how):
    shape, others, attributes, formula = CASES[name]
    op = torch_context.operator(name)
    make = opforge.torch.to_autograd if how == "autograd" else opforge.torch.to_custom_op
    f = make(op, context=torch_context)
    tensors = [draw(*size, seed=i) for i, size in enumerate((shape, *others))]
    tensors = [tensor.requires_grad_() for tensor in tensors]
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    y, truth = f(*tensors, **attributes), formula(*wide, **attributes)
    seed = draw(*y.shape, seed=9)
    y.backward(seed)
    truth.backward(seed.double())
    torch.testing.assert_close(y, truth.float(), rtol=2e-5, atol=2e-6)
    for tensor, expected in zip(tensors, wide, strict=True):
        torch.testing.assert_close(tensor.grad, expected.grad.float(), rtol=2e-4, atol=2e-5)


def test_operators_that_change_tensors_become_functional(torch_context):
    f = opforge.torch.to_autograd(
        torch_context.operator("norm.fused_add_rms_norm"), context=torch_context)
    x, r, w = (draw(4, 16, seed=1), draw(4, 16, seed=2), draw(16, seed=3))
    before = r.clone()
    leaves = [t.clone().requires_grad_() for t in (x, r, w)]
    y, total = f(*leaves, eps=1e-6)
    assert torch.equal(r, before) and torch.equal(leaves[1].detach(), before)
    (y.sum() + 2 * total.square().sum()).backward()
    wide = [t.double().requires_grad_() for t in (x, r, w)]
    h = wide[0] + wide[1]
    (rms(h, wide[2]).sum() + 2 * h.square().sum()).backward()
    torch.testing.assert_close(total, (x + r))
    for leaf, expected in zip(leaves, wide, strict=True):
        torch.testing.assert_close(leaf.grad, expected.grad.float(), rtol=2e-4, atol=2e-4)


@pytest.fixture
def norm(torch_context):
    return opforge.torch.to_autograd(torch_context.operator("norm.rms_norm"), context=torch_context)


def test_layouts_of_gradients_and_inputs(norm):
    x, w = draw(64, 128).requires_grad_(), draw(128, seed=1).requires_grad_()
    truth = [t.detach().clone().requires_grad_() for t in (x, w)]

    def same():
        torch.testing.assert_close(x.grad, truth[0].grad, rtol=2e-4, atol=2e-5)
        torch.testing.assert_close(w.grad, truth[1].grad, rtol=2e-4, atol=2e-4)

    norm(x, w).sum().backward()  # a gradient of stride 0
    rms(*truth).sum().backward()
    same()
    base = draw(128, 128, seed=2)
    norm(x, w).backward(base[::2])
    rms(*truth).backward(base[::2])
    same()
    p = draw(4, 3, 16, seed=3).permute(1, 0, 2).requires_grad_()
    u = draw(16, seed=4)
    q = p.detach().clone().requires_grad_()
    norm(p, u).square().sum().backward()
    rms(q, u).square().sum().backward()
    torch.testing.assert_close(p.grad, q.grad, rtol=2e-4, atol=2e-5)


def test_only_what_is_needed(norm):
    x, w = draw(4, 16), draw(16, seed=1).requires_grad_()
    norm(x, w=w).sum().backward()  # by name
    assert x.grad is None and w.grad is not None
    assert norm(x, w.detach()).grad_fn is None


def test_a_saved_tensor_that_was_changed_is_an_error(norm):
    x, w = draw(4, 16).requires_grad_(), draw(16, seed=1)
    held = x * 1
    y = norm(held, w)
    with torch.no_grad():
        held.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_checkpointing(norm):
    from torch.utils.checkpoint import checkpoint

    x, w = draw(4, 16), draw(16, seed=1)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    checkpoint(lambda t: norm(norm(t, w), w), a, use_reentrant=False).square().sum().backward()
    norm(norm(b, w), w).square().sum().backward()
    assert torch.equal(a.grad, b.grad)


def test_what_is_refused(norm):
    x, w = draw(4, 16).requires_grad_(), draw(16, seed=1)
    (g,) = torch.autograd.grad(norm(x, w).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()
    with pytest.raises((RuntimeError, errors.InvalidArgument)):
        torch.func.vmap(norm, in_dims=(0, None))(x, w)
    with pytest.raises(errors.InvalidArgument, match="eps2"):
        norm(x, w, eps2=1)
    with pytest.raises(errors.InvalidArgument, match="w: expected a tensor"):
        norm(x)


def test_no_gradient_is_said_at_once(torch_context, monkeypatch):
    from opforge.torch import references

    monkeypatch.delitem(references.REFERENCES, "elementwise.scale")
    with pytest.raises(errors.NotFound, match="scale_backward"):
        opforge.torch.to_autograd(
            torch_context.operator("elementwise.scale"), context=torch_context)


def test_gradcheck_of_the_references():
    from opforge.torch.references import REFERENCES

    x = draw(3, 8).double().requires_grad_()
    w, b, r = (draw(8, seed=i).double().requires_grad_() for i in (1, 2, 3))
    other = draw(3, 8, seed=4).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda *t: REFERENCES["norm.rms_norm"](*t, eps=1e-6), (x, w))
    assert torch.autograd.gradcheck(
        lambda *t: REFERENCES["norm.layer_norm"](*t, eps=1e-6), (x, w, b))
    assert torch.autograd.gradcheck(
        lambda *t: REFERENCES["norm.fused_add_rms_norm"](*t, eps=1e-6), (x, other, w))
    for name in ("activation.gelu", "activation.silu_and_mul", "reduction.softmax"):
        assert torch.autograd.gradcheck(REFERENCES[name], (x,))
    assert r.requires_grad


def test_autocast(norm):
    x, w = draw(4, 16).requires_grad_(), draw(16, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x, w)
        y.sum().backward()
    assert y.dtype == torch.float32 and x.grad.dtype == torch.float32


def test_a_step_of_training_reduces_the_loss(norm):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.ones(16))
    linear = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD([weight, *linear.parameters()], lr=0.1)
    x = draw(64, 16)
    target = x[:, :1].sign()
    losses = []
    for _ in range(30):
        loss = (linear(norm(x, weight)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0] and not torch.equal(weight, torch.ones(16))


def test_opcheck_and_schema(torch_context):
    f = opforge.torch.to_custom_op(torch_context.operator("norm.rms_norm"), context=torch_context)
    assert "Tensor x, Tensor w, *, float eps=" in str(f._schema)
    for x in (draw(4, 16), draw(16, 4).T, draw(2, 3, 16), draw(8, 16)[::2]):
        torch.library.opcheck(f, (x, draw(16, seed=1)), {"eps": 1e-5})
    torch.library.opcheck(f, (draw(4, 16).requires_grad_(), draw(16).requires_grad_()))
    two = opforge.torch.to_custom_op(
        torch_context.operator("norm.fused_add_rms_norm"), context=torch_context)
    torch.library.opcheck(two, (draw(4, 16), draw(4, 16, seed=1), draw(16)))


def test_fallback(torch_context):
    scale = torch_context.operator("elementwise.scale")
    refused = torch.as_strided(draw(400), (3, 4, 5), (1, 7, 50))  # no one row stride
    called = []

    def instead(x, *, alpha):
        called.append(x)
        return x * alpha

    f = opforge.torch.to_custom_op(scale, name="scale_or", fallback=instead, context=torch_context)
    torch.testing.assert_close(f(refused, alpha=2.0), refused * 2)
    torch.testing.assert_close(f(draw(4, 8), alpha=2.0), draw(4, 8) * 2)


def test_compile_and_export(torch_context):
    norm = opforge.torch.to_custom_op(
        torch_context.operator("norm.rms_norm"), context=torch_context)
    softmax = opforge.torch.to_custom_op(
        torch_context.operator("reduction.softmax"), context=torch_context)

    def model(x, w):
        return softmax(norm(x, w) * 2) + x

    x, w = draw(6, 16).requires_grad_(), draw(16, seed=1).requires_grad_()
    eager = model(x, w)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, w), eager)
    grads = torch.autograd.grad(eager.square().sum(), (x, w))
    again = torch.autograd.grad(compiled(x, w).square().sum(), (x, w))
    torch.testing.assert_close(again, grads)

    class Module(torch.nn.Module):
        def forward(self, x, w):
            return model(x, w)

    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(
        Module(), (x.detach(), w.detach()), dynamic_shapes={"x": {0: rows}, "w": None})
    other = draw(9, 16, seed=5)
    torch.testing.assert_close(exported.module()(other, w.detach()), model(other, w.detach()))


class Backward:
    """A backward operator in PyTorch, as the packs' own are declared."""

    name = "norm.fused_add_rms_norm_backward"

    def __init__(self):
        self.calls = []

    def describe(self):
        rows = [("dy", "read"), ("dresidual", "read"), ("residual", "read"), ("w", "read"),
                ("dx", "write"), ("dw", "write")]
        dims = {"w": ("N",), "dw": ("N",)}
        return {
            "tensors": [(n, dims.get(n, ("...M", "N")), "T", a, False) for n, a in rows],
            "attributes": [("eps", "float", "1e-06")],
            "dtypes": ["T=f32"],
        }

    def __call__(self, dy, dresidual, residual, w, *, eps=1e-6):
        self.calls.append(residual.clone())
        r = torch.rsqrt(residual.square().mean(-1, keepdim=True) + eps)
        z, g = residual * r, dy * w
        dx = r * (g - z * (g * z).mean(-1, keepdim=True)) + dresidual
        return dx, (dy * z).reshape(-1, dy.shape[-1]).sum(0)


@pytest.mark.parametrize("use_total", [False, True])
def test_backward_kernels_see_new_values_and_serve_every_input(torch_context, use_total):
    kernel = Backward()
    op = torch_context.operator("norm.fused_add_rms_norm")
    f = opforge.torch.to_autograd(op, backward=kernel, context=torch_context)
    x, r, w = (draw(4, 16, seed=1), draw(4, 16, seed=2), draw(16, seed=3))
    leaves = [t.clone().requires_grad_() for t in (x, r, w)]
    y, total = f(*leaves)
    (y.sum() + (total.square().sum() if use_total else 0)).backward()
    wide = [t.double().requires_grad_() for t in (x, r, w)]
    h = wide[0] + wide[1]
    (rms(h, wide[2]).sum() + (h.square().sum() if use_total else 0)).backward()
    assert len(kernel.calls) == 1 and torch.equal(kernel.calls[0], x + r)
    for leaf, expected in zip(leaves, wide, strict=True):
        torch.testing.assert_close(leaf.grad, expected.grad.float(), rtol=2e-4, atol=2e-4)
