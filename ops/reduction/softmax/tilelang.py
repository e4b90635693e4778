"""Softmax over the last dim of contiguous rows of at most WIDTH columns, in f32: a block a row, which stays in registers.

ALIGNED: rows of a multiple of eight columns, so that accesses are vectors. A maximum passes NaN over, the sum does not."""
import tilelang.language as tile


def softmax(T, WIDTH, THREADS, ALIGNED):
    rows, columns = tile.dynamic("rows"), tile.dynamic("columns")

    @tile.prim_func
    def softmax_rows(x: tile.Tensor((rows, columns), T), y: tile.Tensor((rows, columns), T)):
        with tile.Kernel(rows, threads=THREADS) as row:
            if ALIGNED:
                tile.assume(columns % 8 == 0)
            values = tile.alloc_fragment((1, WIDTH), "float32")
            most = tile.alloc_fragment((1,), "float32")
            total = tile.alloc_fragment((1,), "float32")
            for i, j in tile.Parallel(1, WIDTH):
                values[i, j] = tile.if_then_else(j < columns, tile.cast(x[row + i, j], "float32"), -tile.infinity("float32"))
            tile.reduce_max(values, most, dim=1, clear=True)
            for i, j in tile.Parallel(1, WIDTH):
                values[i, j] = tile.exp(values[i, j] - most[i])
            tile.reduce_sum(values, total, dim=1, clear=True)
            for i, j in tile.Parallel(1, WIDTH):
                if j < columns:
                    y[row + i, j] = tile.cast(values[i, j] / total[i], T)

    return softmax_rows
