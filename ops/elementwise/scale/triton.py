"""elementwise.scale in Triton: a block of elements a program."""
import triton
import triton.language as tl

from opforge_triton import element_offset


@triton.jit
def scale(x, y, elements, columns, x_row, x_column, y_row, y_column, alpha, BLOCK: tl.constexpr, LAYOUT: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    keep = at < elements
    v = tl.load(x + element_offset(at, columns, x_row, x_column, LAYOUT), mask=keep).to(tl.float32) * alpha
    tl.store(y + element_offset(at, columns, y_row, y_column, LAYOUT), v.to(y.dtype.element_ty), mask=keep)
