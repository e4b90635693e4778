"""@optimize without a pack: it tunes and builds on the first call."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed in the test environment")

from torch.nn import functional as F  # noqa: E402

import opforge  # noqa: E402


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_optimize_tunes_and_builds(tmp_path, monkeypatch):
    monkeypatch.setenv("OPFORGE_STATE_DIR", str(tmp_path))
    f = opforge.torch.optimize(
        lambda x: F.gelu(x, approximate="tanh"), context=opforge.Context(), budget=1,
        least_speedup=0.0)
    x = draw(32, 512)
    torch.testing.assert_close(f(x), F.gelu(x, approximate="tanh"), rtol=1e-5, atol=1e-6)
    (decision,) = f.explain()
    assert decision.optimized, decision.reason
    assert decision.operator == "activation.gelu"
