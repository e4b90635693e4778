"""activation.silu_and_mul in Triton: a block of a row's gates and factors a program."""
import triton
import triton.language as tl

from opforge_triton import silu


@triton.jit
def silu_and_mul(x, y, columns, x_row, x_column, y_row, y_column, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = at < columns
    gates = x + row * x_row
    factors = gates + columns.to(tl.int64) * x_column
    offsets = at.to(tl.int64) * x_column
    gate = tl.load(gates + offsets, mask=keep).to(tl.float32)
    factor = tl.load(factors + offsets, mask=keep).to(tl.float32)
    out = silu(gate) * factor
    tl.store(y + row * y_row + at.to(tl.int64) * y_column, out.to(y.dtype.element_ty), mask=keep)
