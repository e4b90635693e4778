"""CUDA tensors of PyTorch: streams, graphs, gradients, torch.compile. Skipped where there is no GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here: make venv-torch")

import opforge  # noqa: E402
from opforge.torch import to_autograd, to_custom_op  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no CUDA device")


@pytest.fixture(scope="module")
def cuda_context(tmp_path_factory):
    """Operators with kernels for this GPU, compiled by NVRTC, proved and attested here."""
    path = tmp_path_factory.mktemp("packs") / "cuda.ofpack"
    opforge.build(["norm.rms_norm", "norm.rms_norm_backward", "reduction.softmax"], output=path,
                  shapes={"M": 64, "N": 1024}, dtype="f32,bf16", backend="cuda")
    proofs = path.with_suffix(".attest")
    assert opforge.verify(pack=path, attest=proofs).ok
    assert opforge.pack.attest(path, [proofs]) > 0
    context = opforge.Context()
    opforge.load_pack(path, context=context)
    return context


def rms_norm(x, w, eps=1e-6):
    x = x.double()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w.double()


@pytest.mark.parametrize("dtype,ulp", [(torch.float32, 2.0**-20), (torch.bfloat16, 2.0**-8)])
def test_values(cuda_context, dtype, ulp):
    norm = cuda_context.operator("norm.rms_norm")
    x = torch.randn(64, 1024, device="cuda", dtype=dtype)
    w = torch.randn(1024, device="cuda", dtype=dtype)
    y = norm(x, w)
    assert y.is_cuda and y.dtype == dtype
    truth = rms_norm(x, w)
    assert ((y.double() - truth).abs() <= ulp * (truth.abs() + 2.0**-20)).all()


def test_the_current_stream_is_used(cuda_context):
    softmax = cuda_context.operator("reduction.softmax")
    x = torch.zeros(64, 1024, device="cuda")
    y = torch.empty_like(x)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.copy_(torch.arange(1024.0, device="cuda").expand(64, -1) / 100)
        softmax(x, out=y)  # on another stream it would see the zeros
    side.synchronize()
    torch.testing.assert_close(y, torch.softmax(x.double(), -1).float())


def test_a_captured_plan_replays(cuda_context):
    softmax = cuda_context.operator("reduction.softmax")
    x, y = torch.randn(64, 1024, device="cuda"), torch.empty(64, 1024, device="cuda")
    with softmax.prepare(x, out=y) as plan:
        plan(x, out=y)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            plan(x, out=y)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn(64, 1024, device="cuda"))
            graph.replay()
            torch.cuda.synchronize()
            torch.testing.assert_close(y, torch.softmax(x.double(), -1).float())


def test_gradients_are_those_in_double(cuda_context):
    norm = to_autograd(cuda_context.operator("norm.rms_norm"), context=cuda_context)
    x = torch.randn(64, 1024, device="cuda", requires_grad=True)
    w = torch.randn(1024, device="cuda", requires_grad=True)
    g = torch.randn(64, 1024, device="cuda")
    norm(x, w, eps=1e-6).backward(g)
    dx, dw = (t.detach().double().requires_grad_() for t in (x, w))
    rms_norm(dx, dw).backward(g.double())
    torch.testing.assert_close(x.grad.double(), dx.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(w.grad.double(), dw.grad, rtol=1e-5, atol=1e-4)


def test_custom_op_compiles_without_a_break(cuda_context):
    op = to_custom_op(cuda_context.operator("reduction.softmax"), namespace="opforge_gpu_test",
                      context=cuda_context)
    function = torch.compile(lambda x: op(x * 2) + 1, fullgraph=True, backend="aot_eager")
    x = torch.randn(64, 1024, device="cuda")
    torch.testing.assert_close(function(x), torch.softmax((x * 2).double(), -1).float() + 1)


def test_a_mix_of_devices_is_refused(cuda_context):
    norm = cuda_context.operator("norm.rms_norm")
    with pytest.raises(opforge.errors.Error, match="w"):
        norm(torch.randn(64, 1024, device="cuda"), torch.randn(1024))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device")
def test_the_second_device(cuda_context):
    softmax = cuda_context.operator("reduction.softmax")
    x = torch.randn(64, 1024, device="cuda:1")
    y = softmax(x)
    assert y.device == x.device
    torch.testing.assert_close(y, torch.softmax(x.double(), -1).float())
