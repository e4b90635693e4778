"""What Triton kernels of several operators share: rows of any strides, sums of squares that neither overflow nor vanish,
activations that are accurate in both tails. All arithmetic is fp32."""
import triton
import triton.language as tl
from triton.language.extra import libdevice

HUGE = tl.constexpr(8.5e37)  # about 2^126: a sum beyond it may have overflowed
TINY = tl.constexpr(8.7e-19)  # about 2^-60: squares below it may have vanished


@triton.jit
def read(pointer, at, stride, keep, other=0.0):
    return tl.load(pointer + at.to(tl.int64) * stride, mask=keep, other=other).to(tl.float32)


@triton.jit
def write(pointer, at, stride, keep, value):
    tl.store(pointer + at.to(tl.int64) * stride, value.to(pointer.dtype.element_ty), mask=keep)


@triton.jit
def is_extreme(squares, eps):
    """Whether a sum of squares (NaN too) may not be trusted."""
    return ((squares < HUGE) == 0) | ((squares < TINY) & (eps < TINY))


@triton.jit
def unit_for(high):
    """A power of two that brings `high` >= 0 near 1: an exact factor. 1 for infinity and NaN."""
    exponent = (high.to(tl.int32, bitcast=True) >> 23) & 255
    bounded = tl.minimum(tl.maximum(exponent, 7), 247)
    unit = ((254 - bounded) << 23).to(tl.float32, bitcast=True)
    return tl.where(exponent == 255, 1.0, unit)


@triton.jit
def logistic_parts(x):
    """(s, t): 1 / (1 + exp(-x)) and 1 minus it, each as accurate as it is small."""
    e = tl.exp(-tl.abs(x))
    large = 1.0 / (1.0 + e)
    small = e * large
    return tl.where(x < 0, small, large), tl.where(x < 0, large, small)


@triton.jit
def silu(x):
    bounded = tl.where(x < -1000.0, -1000.0, x)  # -inf * 0 would be NaN
    s, t = logistic_parts(bounded)
    return bounded * s


@triton.jit
def gelu_erf(x):
    """max(x, 0) - z Phi(-z) with z = |x|."""
    size = tl.abs(x)
    z = tl.where(size > 15.0, 15.0, size)
    near = z * (0.5 * libdevice.erfc(z * 0.70710678118654752))
    # The library's erfc flushes subnormals: beyond 12 its asymptotic series, times 2^64 until the last product.
    t = 2.0 / (z * z)
    far = 0.39894228 * (1.0 - t * (0.5 - 0.75 * t)) * tl.exp(44.3614195558 - 0.5 * z * z) * 5.42101086e-20
    return tl.where(x < 0, 0.0, x) - tl.where(z > 12.0, far, near)


@triton.jit
def gelu_tanh(x):
    bounded = tl.where(x < -20.0, -20.0, x)
    twice = bounded * 1.59576912 * (bounded * bounded * 0.044715 + 1.0)
    s, t = logistic_parts(twice)
    return bounded * s


@triton.jit
def element_offset(at, columns, row_stride, column_stride, LAYOUT: tl.constexpr):
    """Of element `at` of a matrix; LAYOUT 1 and 2: a contiguous one."""
    if LAYOUT >= 1:
        return at
    else:
        return (at // columns) * row_stride + (at % columns) * column_stride
