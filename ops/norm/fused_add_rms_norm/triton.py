"""norm.fused_add_rms_norm in Triton: as norm.rms_norm, of the fp32 sum, which also replaces the residual. Rows that do not fit are
read twice: the residual is written only when its element has been read for the last time."""
import triton
import triton.language as tl

from opforge_triton import is_extreme, read, unit_for, write


@triton.jit
def total(x_row, r_row, at, x_stride, r_stride, keep):
    return read(x_row, at, x_stride, keep) + read(r_row, at, r_stride, keep)


@triton.jit
def fused_add_rms_norm(x, residual, y, w, columns, eps, x_row_stride, x_column_stride, residual_row_stride, residual_column_stride,
                       y_row_stride, y_column_stride, w_stride, BLOCK: tl.constexpr, LOOP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x + row * x_row_stride
    r_row = residual + row * residual_row_stride
    y_row = y + row * y_row_stride
    lanes = tl.arange(0, BLOCK)
    root = tl.sqrt_rn(eps)
    unit = tl.full((), 1.0, tl.float32)
    if LOOP:
        sums = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, columns, BLOCK):
            h = total(x_row, r_row, start + lanes, x_column_stride, residual_column_stride, start + lanes < columns)
            sums += h * h
        squares = tl.sum(sums, axis=0)
        if is_extreme(squares, eps):
            high = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, columns, BLOCK):
                h = total(x_row, r_row, start + lanes, x_column_stride, residual_column_stride, start + lanes < columns)
                high = tl.maximum(high, tl.abs(h))
            unit = unit_for(tl.maximum(tl.max(high, axis=0), root))
            sums = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, columns, BLOCK):
                h = total(x_row, r_row, start + lanes, x_column_stride, residual_column_stride, start + lanes < columns) * unit
                sums += h * h
            squares = tl.sum(sums, axis=0)
    else:
        h = total(x_row, r_row, lanes, x_column_stride, residual_column_stride, lanes < columns)
        squares = tl.sum(h * h, axis=0)
        if is_extreme(squares, eps):
            unit = unit_for(tl.maximum(tl.max(tl.abs(h), axis=0), root))
            squares = tl.sum(h * unit * (h * unit), axis=0)
    below = tl.sqrt_rn(tl.div_rn(squares, columns.to(tl.float32)) + tl.where(unit == 1.0, eps, root * unit * (root * unit)))
    factor = tl.div_rn(1.0, below)
    if LOOP:
        for start in range(0, columns, BLOCK):
            at = start + lanes
            keep = at < columns
            h = total(x_row, r_row, at, x_column_stride, residual_column_stride, keep)
            write(r_row, at, residual_column_stride, keep, h)
            write(y_row, at, y_column_stride, keep, h * unit * factor * read(w, at, w_stride, keep))
    else:
        keep = lanes < columns
        write(r_row, lanes, residual_column_stride, keep, h)
        write(y_row, lanes, y_column_stride, keep, h * unit * factor * read(w, lanes, w_stride, keep))
