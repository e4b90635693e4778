"""Three ways to call an operator with NumPy arrays and other producers."""

import array

import numpy as np
import pytest

import opforge
from opforge import errors


def softmax_of(x):
    x = x.astype("f8")
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rms_norm_of(x, w, eps):
    x = x.astype("f8")
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * w


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((6, 40)).astype("f4")


def test_out_of_place(softmax, x):
    y = softmax(x)
    assert type(y) is np.ndarray and y.dtype == np.float32 and y.shape == x.shape
    np.testing.assert_allclose(y, softmax_of(x), rtol=1e-5, atol=1e-7)


def test_outputs_follow_every_change_of_inputs(softmax, rms_norm):
    rng = np.random.default_rng(4)
    for shape in ((6, 40), (6, 40), (40, 6), (2, 3, 40), (6, 40), (240,)):
        x = rng.standard_normal(shape).astype("f4")
        np.testing.assert_allclose(softmax(x), softmax_of(x), rtol=1e-5, atol=1e-7)
        w = np.ones(shape[-1], "f4")
        assert rms_norm(x, w).shape == rms_norm(x, w, eps=0.5).shape == shape


def test_out_is_written_and_returned(softmax, x):
    y = np.full_like(x, np.nan)
    assert softmax(x, out=y) is y
    np.testing.assert_allclose(y, softmax_of(x), rtol=1e-5, atol=1e-7)
    z = np.full_like(x, np.nan)
    assert softmax(x, y=z) is z  # by its own name
    assert np.array_equal(y, z)


def test_attributes_by_name(rms_norm, x):
    w = np.linspace(0.5, 2, 40, dtype="f4")
    for eps in (1e-6, 0.5, np.float32(0.25), 1):
        y = rms_norm(x, w, eps=eps)
        np.testing.assert_allclose(y, rms_norm_of(x, w, float(eps)), rtol=2e-5, atol=1e-6)
    assert np.array_equal(rms_norm(x, w=w, eps=0.5), rms_norm(x, w, eps=0.5))


def test_leading_dims_and_views(softmax, x):
    big = np.random.default_rng(2).standard_normal((3, 4, 10)).astype("f4")
    np.testing.assert_allclose(softmax(big), softmax_of(big), rtol=1e-5, atol=1e-7)
    for view in (x[::2], x[:, ::2], x.T, x[1:, 3:], x[::-1]):
        np.testing.assert_allclose(softmax(view), softmax_of(view), rtol=1e-5, atol=1e-7)


def test_empty(softmax):
    assert softmax(np.empty((0, 8), "f4")).shape == (0, 8)


def test_prepared(softmax, x):
    y = np.full_like(x, np.nan)
    with softmax.prepare(x) as plan:
        assert plan(x, out=y) is y
        other = x + 1
        fresh = plan(other)
        info = plan.describe()
    np.testing.assert_allclose(y, softmax_of(x), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fresh, softmax_of(other), rtol=1e-5, atol=1e-7)
    assert info["backend"] == "cpu" and info["device"] == "cpu:0" and info["why"]
    assert plan.closed
    with pytest.raises(errors.PlanClosed, match="closed"):
        plan(x, out=y)


@pytest.mark.parametrize(
    "change, what",
    [
        (lambda x: x[:3], "6, 40"),
        (lambda x: x.astype("f8"), "f64"),
        (lambda x: np.asfortranarray(x), "strides"),
        (lambda x: x[:, None, :], "1, 40"),
    ],
)
def test_rebinding_is_validated(softmax, x, change, what):
    plan = softmax.prepare(x)
    with pytest.raises(errors.InvalidArgument, match="prepare another") as caught:
        plan(change(x), out=np.empty_like(x))
    assert caught.value.argument == "x" and caught.value.operator == "reduction.softmax"
    assert what in str(caught.value)
    with pytest.raises(errors.InvalidArgument, match="fixed by prepare"):
        plan(x, contract="FAST")


def test_contract_and_backend(softmax, x):
    for contract in ("FAST", "HIGH_PRECISION", "DETERMINISTIC"):
        assert softmax.explain(x, contract=contract).asked == contract
        np.testing.assert_allclose(softmax(x, contract=contract), softmax_of(x), rtol=1e-5)
    assert np.array_equal(softmax(x, backend="cpu"), softmax(x))


def test_precondition_is_a_value(softmax, x):
    answer = softmax(x, precondition=lambda given, out: "the rank is odd")
    assert answer == opforge.Unavailable("reduction.softmax", "the rank is odd")
    assert not answer
    with pytest.raises(errors.Unserved, match="the rank is odd"):
        answer.value()
    assert isinstance(softmax(x, precondition=lambda given, out: False), opforge.Unavailable)
    assert isinstance(softmax(x, precondition=lambda given, out: True), np.ndarray)
    with pytest.raises(ZeroDivisionError):
        softmax(x, precondition=lambda given, out: 1 / 0)


def test_memory_of_no_array_library(softmax):
    values = array.array("f", [1, 2, 3, 4])
    y = array.array("f", [0] * 4)
    assert softmax(values, out=y) is y
    np.testing.assert_allclose(y, softmax_of(np.array(values)), rtol=1e-5)
    with pytest.raises(errors.InvalidArgument, match="give out="):
        softmax(values)


class Producer:
    """A DLPack producer that is no NumPy array."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __array_namespace__(self):
        return np


class OldProducer(Producer):
    """Of before DLPack 1.0: no max_version."""

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()


@pytest.mark.parametrize("kind", [Producer, OldProducer])
def test_dlpack_producers(softmax, x, kind):
    y = softmax(kind(x))
    np.testing.assert_allclose(y, softmax_of(x), rtol=1e-5, atol=1e-7)
    out = np.empty_like(x)
    softmax(x, out=kind(out))
    assert np.array_equal(out, y)


def test_two_contexts_do_not_mix(pack, x):
    empty = opforge.Context()
    with pytest.raises(errors.NotFound):
        empty.operator("reduction.softmax")
    other = opforge.Context(backend="cpu")
    opforge.load_pack(pack, context=other)
    assert "reduction.softmax" in other.operators()
    assert len(other.choices_digest()) == 64


def test_many_threads(softmax, x):
    from concurrent.futures import ThreadPoolExecutor

    inputs = [x + i for i in range(8)]
    with softmax.prepare(x) as plan, ThreadPoolExecutor(8) as pool:
        by_plan = list(pool.map(lambda v: plan(v), inputs * 20))
        by_call = list(pool.map(lambda v: softmax(v), inputs * 20))
    for i, v in enumerate(inputs * 20):
        assert np.array_equal(by_plan[i], by_call[i])
        np.testing.assert_allclose(by_plan[i], softmax_of(v), rtol=1e-5, atol=1e-7)


def test_after_fork(run_python):
    out = run_python(
        """
import os, numpy as np, opforge
opforge.load_pack(os.environ["OPFORGE_TEST_PACK"])
softmax = opforge.operator("reduction.softmax")
x = np.random.default_rng(0).standard_normal((4096, 256)).astype("f4")
y = softmax(x)  # the threads of the parent run now
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(softmax(x), y) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert out.split() == ["0"]
