"""norm.layer_norm in Triton: one program a row, the mean first and squares about it; a row whose sums overflow or squares vanish
is done again, scaled by a power of two. Rows that do not fit are read three times."""
import triton
import triton.language as tl

from opforge_triton import is_extreme, read, unit_for, write


@triton.jit
def moments(x_row, stride, columns, unit, BLOCK: tl.constexpr):
    """Mean and sum of squares about it of a row times `unit`, in blocks."""
    lanes = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        sums += read(x_row, start + lanes, stride, start + lanes < columns) * unit
    mean = tl.div_rn(tl.sum(sums, axis=0), columns.to(tl.float32))
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        keep = start + lanes < columns
        d = tl.where(keep, read(x_row, start + lanes, stride, keep) * unit - mean, 0.0)
        squares += d * d
    return mean, tl.sum(squares, axis=0)


@triton.jit
def highest(x_row, stride, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    high = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        high = tl.maximum(high, tl.abs(read(x_row, start + lanes, stride, start + lanes < columns)))
    return tl.max(high, axis=0)


@triton.jit
def layer_norm(x, y, w, b, columns, eps, has_bias, x_row_stride, x_column_stride, y_row_stride, y_column_stride, w_stride, b_stride,
               BLOCK: tl.constexpr, LOOP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x + row * x_row_stride
    y_row = y + row * y_row_stride
    lanes = tl.arange(0, BLOCK)
    root = tl.sqrt_rn(eps)
    count = columns.to(tl.float32)
    unit = tl.full((), 1.0, tl.float32)
    if LOOP:
        mean, squares = moments(x_row, x_column_stride, columns, unit, BLOCK)
        if is_extreme(squares, eps):
            unit = unit_for(tl.maximum(highest(x_row, x_column_stride, columns, BLOCK), root))
            mean, squares = moments(x_row, x_column_stride, columns, unit, BLOCK)
    else:
        keep = lanes < columns
        v = read(x_row, lanes, x_column_stride, keep)
        mean = tl.div_rn(tl.sum(v, axis=0), count)
        d = tl.where(keep, v - mean, 0.0)
        squares = tl.sum(d * d, axis=0)
        if is_extreme(squares, eps):
            unit = unit_for(tl.maximum(tl.max(tl.abs(v), axis=0), root))
            mean = tl.div_rn(tl.sum(v * unit, axis=0), count)
            d = tl.where(keep, v * unit - mean, 0.0)
            squares = tl.sum(d * d, axis=0)
    below = tl.sqrt_rn(tl.div_rn(squares, count) + tl.where(unit == 1.0, eps, root * unit * (root * unit)))
    factor = tl.div_rn(1.0, below)
    if LOOP:
        for start in range(0, columns, BLOCK):
            at = start + lanes
            keep = at < columns
            normal = (read(x_row, at, x_column_stride, keep) * unit - mean) * factor
            out = normal * read(w, at, w_stride, keep) + read(b, at, b_stride, keep & (has_bias != 0))
            write(y_row, at, y_column_stride, keep, out)
    else:
        out = d * factor * read(w, lanes, w_stride, keep) + read(b, lanes, b_stride, keep & (has_bias != 0))
        write(y_row, lanes, y_column_stride, keep, out)
