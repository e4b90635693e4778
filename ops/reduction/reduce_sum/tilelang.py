"""Sum over the last dim of contiguous rows, in double, rounded to f32 and T: a block a row, BLOCK columns at a time.

ALIGNED: rows of a multiple of eight columns, so that accesses are vectors."""
import tilelang.language as tile


def reduce_sum(T, BLOCK, THREADS, ALIGNED):
    rows, columns = tile.dynamic("rows"), tile.dynamic("columns")

    @tile.prim_func
    def add_rows(x: tile.Tensor((rows, columns), T), y: tile.Tensor((rows,), T)):
        with tile.Kernel(rows, threads=THREADS) as row:
            if ALIGNED:
                tile.assume(columns % 8 == 0)
            part = tile.alloc_fragment((BLOCK,), "float64")
            total = tile.alloc_fragment((1,), "float64")
            tile.clear(part)
            for k in tile.serial(tile.ceildiv(columns, BLOCK)):
                for i in tile.Parallel(BLOCK):
                    part[i] += tile.if_then_else(k * BLOCK + i < columns, tile.cast(x[row, k * BLOCK + i], "float64"), tile.cast(0, "float64"))
            tile.reduce_sum(part, total, dim=0, clear=True)
            y[row] = tile.cast(tile.cast(total[0], "float32"), T)

    return add_rows
