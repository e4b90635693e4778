"""y = a + b over contiguous elements; the sum is taken in f32 and rounded once to T.

A block has BLOCK elements. ALIGNED: their number is a multiple of eight, so that accesses are vectors."""
import tilelang.language as tile


def vector_add(T, BLOCK, THREADS, ALIGNED):
    elements = tile.dynamic("elements")

    @tile.prim_func
    def add(a: tile.Tensor((elements,), T), b: tile.Tensor((elements,), T), y: tile.Tensor((elements,), T)):
        with tile.Kernel(tile.ceildiv(elements, BLOCK), threads=THREADS) as block:
            if ALIGNED:
                tile.assume(elements % 8 == 0)
            for i in tile.Parallel(BLOCK):
                y[block * BLOCK + i] = tile.cast(
                    tile.cast(a[block * BLOCK + i], "float32") + tile.cast(b[block * BLOCK + i], "float32"), T)

    return add
