"""y = x over contiguous elements, moved as they are.

A block has BLOCK elements. ALIGNED: their number is a multiple of eight, so that accesses are vectors."""
import tilelang.language as tile


def copy(T, BLOCK, THREADS, ALIGNED):
    elements = tile.dynamic("elements")

    @tile.prim_func
    def move(x: tile.Tensor((elements,), T), y: tile.Tensor((elements,), T)):
        with tile.Kernel(tile.ceildiv(elements, BLOCK), threads=THREADS) as block:
            if ALIGNED:
                tile.assume(elements % 8 == 0)
            for i in tile.Parallel(BLOCK):
                y[block * BLOCK + i] = x[block * BLOCK + i]

    return move
