"""Wrong calls: the named exception, with operator, argument, expected, actual and what to do."""

import numpy as np
import pytest

import opforge
from opforge import errors


@pytest.fixture
def x():
    return np.ones((4, 8), "f4")


@pytest.mark.parametrize(
    "call, argument, expected, actual",
    [
        (lambda op, x: op([1.0, 2.0]), "x", "a tensor", "list"),
        (lambda op, x: op(None), "x", "a tensor", "nothing"),
        (lambda op, x: op(x, x), "positional arguments", "1 tensors", "2"),
        (lambda op, x: op(x, alpha=2), "alpha", "a name that the operator has", "unknown"),
        (lambda op, x: op(x, contract="SLOW"), "contract", "FAST", "SLOW"),
        (lambda op, x: op(x, contract=3), "contract", "a text", "3"),
        (lambda op, x: op(x, out=(x, x)), "out", "at most 1", "2"),
        (lambda op, x: op(x, out=x.copy(), y=x.copy()), "y", "one tensor", "two"),
        (lambda op, x: op(x.astype("c8")), "x", "f32", "Zf"),
        (lambda op, x: op(x.astype(">f4")), "x", "native byte order", ">f"),
        (lambda op, x: op(np.ones((1,) * 9, "f4")), "x", "at most 8 dims", "9"),
        (lambda op, x: op(x, stream="a"), "stream", "an integer", "'a'"),
    ],
)
def test_fields(softmax, x, call, argument, expected, actual):
    with pytest.raises(errors.InvalidArgument) as caught:
        call(softmax, x)
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.operator == "reduction.softmax" and error.argument == argument
    assert expected in error.expected and actual in error.actual
    for text in (error.operator, error.argument, error.expected, error.actual):
        assert text in str(error)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda op, x: op(x.astype("f8")), "T=f64 are not supported"),
        (lambda op, x: op(x, out=np.empty((4, 7), "f4")), "N is 8 in x but 7 in y"),
        (lambda op, x: op(x, out=np.empty((4, 8), "f8")), "f64"),
    ],
)
def test_what_the_library_refuses(softmax, x, call, message):
    with pytest.raises(errors.InvalidArgument, match=message) as caught:
        call(softmax, x)
    assert caught.value.operator == "reduction.softmax"


def test_read_only_out(softmax, x):
    y = np.empty_like(x)
    y.flags.writeable = False
    with pytest.raises(errors.InvalidArgument, match="writable") as caught:
        softmax(x, out=y)
    assert caught.value.argument == "y" and caught.value.actual == "a read-only one"
    x.flags.writeable = False  # of inputs it does not matter
    softmax(x)


def test_structured_field(softmax):
    rows = np.zeros(8, [("a", "i1"), ("b", "f4")])
    with pytest.raises(errors.InvalidArgument, match="multiples of the element size"):
        softmax(rows["b"])


def test_attribute_types(rms_norm, x):
    w = np.ones(8, "f4")
    with pytest.raises(errors.InvalidArgument, match="eps: expected a number"):
        rms_norm(x, w, eps="small")
    with pytest.raises(errors.InvalidArgument, match="zero_centered"):
        rms_norm(x, w, zero_centered=1.5)


def test_unknown_operator(context):
    with pytest.raises(errors.NotFound, match="nearest: reduction.softmax") as caught:
        context.operator("reduction.softmaxx")
    assert isinstance(caught.value, LookupError)
    assert caught.value.operator == "reduction.softmaxx"


def test_backends(softmax, context, x):
    with pytest.raises(errors.BackendNotEligible, match="cuda") as caught:
        softmax(x, backend="cuda")
    assert caught.value.operator == "reduction.softmax"
    assert caught.value.explanation.candidates
    with pytest.raises(errors.NotFound, match="did you mean cpu"):
        softmax(x, backend="cpuu")
    with pytest.raises(errors.NotFound, match="valid are"):
        context.set_backend("cpuu")


def test_proof(softmax, x):
    with pytest.raises(errors.InvalidArgument, match="proof"):
        softmax(x, proof="maybe")
    assert softmax(x, proof="required").shape == x.shape


def test_packs(tmp_path, pack):
    context = opforge.Context()
    with pytest.raises(errors.NotFound, match="nowhere"):
        opforge.load_pack(tmp_path / "nowhere.ofpack", context=context)
    damaged = tmp_path / "damaged.ofpack"
    content = bytearray(pack.read_bytes())
    content[40] ^= 1
    damaged.write_bytes(content)
    with pytest.raises((errors.Corrupt, errors.Untrusted, errors.Incompatible)):
        opforge.load_pack(damaged, context=context)
    with pytest.raises(errors.Untrusted):
        opforge.load_pack(pack, only_named_keys=True, context=context)
    with pytest.raises(errors.NotFound, match="64 hex digits"):
        opforge.load_pack(pack, trusted_keys=["xyz"], context=context)


def test_no_pack_is_open(run_python):
    out = run_python(
        """
import opforge
try:
    opforge.operator("reduction.softmax")
except opforge.errors.NotFound as error:
    print(error)
"""
    )
    assert "opforge.load_pack()" in out


def test_sealed(run_python):
    out = run_python(
        """
import os, numpy as np, opforge
opforge.load_pack(os.environ["OPFORGE_TEST_PACK"])
opforge.seal()
assert opforge.is_sealed()
scale = opforge.operator("elementwise.scale")
assert scale(np.ones(4, "f4"), alpha=2.0).tolist() == [2, 2, 2, 2]
try:
    scale(np.ones(4, "f2"), alpha=2.0)  # the pack has no f16
except opforge.errors.CompilationSealed as error:
    assert error.operator == "elementwise.scale" and "f16" in str(error), error
    assert len(error.misses) == 1 == len(opforge.sealed_misses())
    print("refused")
"""
    )
    assert out.split() == ["refused"]
