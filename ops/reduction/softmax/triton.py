"""reduction.softmax in Triton: one program a row, sums and exponentials in fp32.

Source of the scheme: the fused softmax of Triton's tutorials; rows that do not fit are read twice with a running maximum
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
"""
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, x_row_stride, x_column_stride, y_row_stride, y_column_stride, BLOCK: tl.constexpr, LOOP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x + row * x_row_stride
    y_row = y + row * y_row_stride
    lanes = tl.arange(0, BLOCK)
    if LOOP:
        high = tl.full((BLOCK,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, columns, BLOCK):
            at = start + lanes
            v = tl.load(x_row + at.to(tl.int64) * x_column_stride, mask=at < columns, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(high, v, propagate_nan=tl.PropagateNan.ALL)
            # A lane that has seen nothing but -inf stays at 0: the difference would be NaN.
            scale = tl.where(high == float("-inf"), 0.0, tl.exp(high - higher))
            total = total * scale + tl.where(v == float("-inf"), 0.0, tl.exp(v - higher))
            high = higher
        top = tl.max(high, axis=0)
        top = tl.where(tl.max((high != high).to(tl.int32), axis=0) > 0, float("nan"), top)
        share = 1.0 / tl.sum(tl.where(high == float("-inf"), 0.0, total * tl.exp(high - top)), axis=0)
        for start in range(0, columns, BLOCK):
            at = start + lanes
            keep = at < columns
            v = tl.load(x_row + at.to(tl.int64) * x_column_stride, mask=keep, other=float("-inf")).to(tl.float32)
            tl.store(y_row + at.to(tl.int64) * y_column_stride, (tl.exp(v - top) * share).to(y.dtype.element_ty), mask=keep)
    else:
        keep = lanes < columns
        v = tl.load(x_row + lanes.to(tl.int64) * x_column_stride, mask=keep, other=float("-inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, axis=0))
        share = 1.0 / tl.sum(e, axis=0)
        tl.store(y_row + lanes.to(tl.int64) * y_column_stride, (e * share).to(y.dtype.element_ty), mask=keep)
