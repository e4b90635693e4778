"""Operators with PyTorch tensors."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed in the test environment")

import opforge  # noqa: E402
from opforge import errors  # noqa: E402


@pytest.fixture
def x():
    return torch.randn(6, 40, generator=torch.Generator().manual_seed(1))


def test_three_ways(softmax, x):
    expected = torch.softmax(x.double(), -1).float()
    y = softmax(x)
    assert type(y) is torch.Tensor and y.dtype == torch.float32
    torch.testing.assert_close(y, expected)
    out = torch.full_like(x, float("nan"))
    assert softmax(x, out=out) is out
    assert torch.equal(out, y)
    with softmax.prepare(x) as plan:
        assert torch.equal(plan(x), y)
        assert plan(x, out=out) is out
        with pytest.raises(errors.InvalidArgument, match="strides"):
            plan(x.T.contiguous().T, out=out)


def test_views(softmax, x):
    for view in (x[::2], x[:, ::2], x.T, x[1:, 3:], x[:1].expand(5, 40)):
        torch.testing.assert_close(softmax(view), torch.softmax(view.double(), -1).float())


def test_parameters_and_gradients(softmax, x):
    parameter = torch.nn.Parameter(x.clone())
    with pytest.raises(errors.InvalidArgument, match="to_autograd") as caught:
        softmax(parameter)
    assert caught.value.argument == "x"
    with torch.no_grad():
        assert torch.equal(softmax(parameter), softmax(x))
    assert torch.equal(softmax(parameter.detach()), softmax(x))


def test_what_has_no_values_in_memory(softmax, x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(4, 8)
    wrong = {
        "memory": fake,
        "negation": torch._neg_view(x),
        "dense": x.to_sparse(),
        "meta": torch.empty(4, 8, device="meta"),
        "storage": None,
    }
    for word, tensor in wrong.items():
        with pytest.raises(errors.InvalidArgument, match=word):
            if tensor is None:
                torch.func.vmap(softmax)(x)
            else:
                softmax(tensor)


def test_a_conjugate_view_is_refused(softmax):
    with pytest.raises(errors.InvalidArgument):
        softmax(torch.randn(4, 8, dtype=torch.complex64).conj())


def test_mixed_kinds(rms_norm, x):
    w = torch.linspace(0.5, 2, 40)
    y = rms_norm(x, w.numpy(), eps=1e-5)
    assert type(y) is torch.Tensor
    z = rms_norm(x.numpy(), w, eps=1e-5)
    assert (torch.from_numpy(z) == y).all()


def test_threads_of_pytorch(softmax, x):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: softmax(x + i), range(40)))
    for i, y in enumerate(results):
        torch.testing.assert_close(y, torch.softmax((x + i).double(), -1).float())
    assert opforge.is_sealed() is False
