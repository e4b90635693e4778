"""norm.rms_norm in Triton: one program a row, squares in fp32; a row whose squares overflow or vanish is done again, scaled by a
power of two. Rows that do not fit are read twice."""
import triton
import triton.language as tl

from opforge_triton import is_extreme, read, unit_for, write


@triton.jit
def rms_norm(x, y, w, columns, eps, x_row_stride, x_column_stride, y_row_stride, y_column_stride, w_stride, BLOCK: tl.constexpr,
             LOOP: tl.constexpr, zero_centered: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x + row * x_row_stride
    y_row = y + row * y_row_stride
    lanes = tl.arange(0, BLOCK)
    root = tl.sqrt_rn(eps)
    unit = tl.full((), 1.0, tl.float32)
    if LOOP:
        sums = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, columns, BLOCK):
            v = read(x_row, start + lanes, x_column_stride, start + lanes < columns)
            sums += v * v
        squares = tl.sum(sums, axis=0)
        if is_extreme(squares, eps):
            high = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, columns, BLOCK):
                high = tl.maximum(high, tl.abs(read(x_row, start + lanes, x_column_stride, start + lanes < columns)))
            unit = unit_for(tl.maximum(tl.max(high, axis=0), root))
            sums = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, columns, BLOCK):
                v = read(x_row, start + lanes, x_column_stride, start + lanes < columns) * unit
                sums += v * v
            squares = tl.sum(sums, axis=0)
    else:
        v = read(x_row, lanes, x_column_stride, lanes < columns)
        squares = tl.sum(v * v, axis=0)
        if is_extreme(squares, eps):
            unit = unit_for(tl.maximum(tl.max(tl.abs(v), axis=0), root))
            squares = tl.sum(v * unit * (v * unit), axis=0)
    below = tl.sqrt_rn(tl.div_rn(squares, columns.to(tl.float32)) + tl.where(unit == 1.0, eps, root * unit * (root * unit)))
    factor = tl.div_rn(1.0, below)
    if LOOP:
        for start in range(0, columns, BLOCK):
            at = start + lanes
            keep = at < columns
            weight = read(w, at, w_stride, keep)
            if zero_centered:
                weight += 1.0
            write(y_row, at, y_column_stride, keep, read(x_row, at, x_column_stride, keep) * unit * factor * weight)
    else:
        weight = read(w, lanes, w_stride, lanes < columns)
        if zero_centered:
            weight += 1.0
        write(y_row, lanes, y_column_stride, lanes < columns, v * unit * factor * weight)
