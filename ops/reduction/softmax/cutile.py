"""reduction.softmax in cuTile: one block a row, in one tile or in three passes over tiles; all arithmetic in fp32."""
import cuda.tile as ct


@ct.kernel
def softmax(x, y, TILE: ct.Constant[int], LOOP: ct.Constant[int]):
    row = ct.bid(0)
    if LOOP:
        tiles = ct.num_tiles(x, axis=1, shape=(1, TILE))
        high = ct.full((1, TILE), float("-inf"), ct.float32)
        for j in range(tiles):
            v = ct.astype(ct.load(x, index=(row, j), shape=(1, TILE), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
            high = ct.maximum(high, v)
        top = ct.max(high, axis=1, keepdims=True)
        sums = ct.zeros((1, TILE), ct.float32)
        for j in range(tiles):
            v = ct.astype(ct.load(x, index=(row, j), shape=(1, TILE), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
            sums = sums + ct.exp(v - top)
        share = 1.0 / ct.sum(sums, axis=1, keepdims=True)
        for j in range(tiles):
            v = ct.astype(ct.load(x, index=(row, j), shape=(1, TILE), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
            ct.store(y, index=(row, j), tile=ct.astype(ct.exp(v - top) * share, y.dtype))
    else:
        v = ct.astype(ct.load(x, index=(row, 0), shape=(1, TILE), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
        e = ct.exp(v - ct.max(v, axis=1, keepdims=True))
        share = 1.0 / ct.sum(e, axis=1, keepdims=True)
        ct.store(y, index=(row, 0), tile=ct.astype(e * share, y.dtype))
