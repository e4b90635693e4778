"""elementwise.vector_add in cuTile: a tile of one row a block, the sum in fp32."""
import cuda.tile as ct


@ct.kernel
def vector_add(a, b, y, TILE: ct.Constant[int]):
    at = (ct.bid(0), ct.bid(1))
    left = ct.astype(ct.load(a, index=at, shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    right = ct.astype(ct.load(b, index=at, shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    ct.store(y, index=at, tile=ct.astype(left + right, y.dtype))
