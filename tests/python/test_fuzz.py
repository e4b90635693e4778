"""Whatever is given, a call answers with a value or a named exception; the interpreter lives."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opforge
from opforge import errors

DTYPES = ["f4", "f4", "f4", "f8", "f2", "i4", "i8", "u1", "?", "c8", "U3", ">f4"]


@st.composite
def arrays(draw):
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    value = np.zeros([n + 2 for n in shape], dtype)
    if dtype == "f4":
        value[...] = draw(st.sampled_from([0, 1, -3.5, np.inf, np.nan]))
    cut = tuple(
        draw(st.sampled_from([slice(1, n + 1), slice(n, None, -1), slice(0, n, 2)])) for n in shape
    )
    value = value[cut]
    if draw(st.booleans()):
        value = value.T
    if draw(st.booleans()) and value.ndim and value.shape[0]:
        value = np.broadcast_to(value[:1], (3, *value.shape[1:]))
    return value


ANYTHING = st.one_of(
    arrays(), arrays(), st.none(), st.integers(-3, 3), st.text(max_size=3), st.just(b"abcd"),
    st.just([1.0, 2.0]), st.just((np.ones(2, "f4"),)), st.floats(), st.booleans(),
)
KEYWORDS = st.dictionaries(
    st.sampled_from(
        ["out", "y", "x", "w", "eps", "zero_centered", "contract", "backend", "proof", "rank",
         "world_size", "lockstep", "precondition", "nonsense", "alpha"]
    ),
    ANYTHING,
    max_size=3,
)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    which=st.integers(0, 2), args=st.lists(ANYTHING, max_size=3), kwargs=KEYWORDS,
    how=st.integers(0, 2),
)
def test_calls_never_crash(softmax, rms_norm, scale, which, args, kwargs, how):
    op = (softmax, rms_norm, scale)[which]
    try:
        if how == 0:
            answer = op(*args, **kwargs)
            assert answer is not None
        elif how == 1:
            op.explain(*args, **kwargs)
        else:
            plan = op.prepare(*args, **kwargs)
            if not isinstance(plan, opforge.Unavailable):
                plan(*args, **{k: v for k, v in kwargs.items() if k in ("out", "x", "y", "w")})
    except errors.Error as error:
        assert str(error) and error.status != "internal", error
    except TypeError as error:
        assert "not callable" in str(error)  # the precondition that was given


@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=arrays())
def test_what_is_served_is_right(softmax, x):
    try:
        y = softmax(x)
    except errors.Error:
        return
    if isinstance(y, opforge.Unavailable):  # leading dims that cannot be seen as one
        assert "dims" in y.reason
        return
    wide = x.astype("f8")
    with np.errstate(invalid="ignore"):
        e = np.exp(wide - wide.max(axis=-1, keepdims=True)) if wide.size else wide
        expected = e / e.sum(axis=-1, keepdims=True) if wide.size else wide
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-7)
