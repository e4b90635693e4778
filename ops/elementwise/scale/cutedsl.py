"""y = alpha * x over contiguous elements at 16-byte boundaries; the product is taken in f32 and rounded once to T.

A thread has one vector of 16 bytes; the last one takes what is left over."""
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64


def scale(T, THREADS):
    VEC = 128 // T.width

    @cute.kernel
    def device(x: cute.Pointer, y: cute.Pointer, elements: Int64, alpha: Float32):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        first = cute.assume((Int64(block) * THREADS + thread) * VEC, divby=VEC)
        if first + VEC <= elements:
            values = cute.make_rmem_tensor(VEC, T)
            cute.autovec_copy(cute.make_tensor(x + first, cute.make_layout(VEC)), values)
            values.store((values.load().to(Float32) * alpha).to(T))
            cute.autovec_copy(values, cute.make_tensor(y + first, cute.make_layout(VEC)))
        else:
            source = cute.make_tensor(x, cute.make_layout(elements))
            target = cute.make_tensor(y, cute.make_layout(elements))
            i = first
            while i < elements:
                target[i] = (source[i].to(Float32) * alpha).to(T)
                i += 1

    @cute.jit
    def host(x: cute.Pointer, y: cute.Pointer, elements: Int64, alpha: Float32, stream):
        blocks = (elements + THREADS * VEC - 1) // (THREADS * VEC)
        device(x, y, elements, alpha).launch(grid=[Int32(blocks), 1, 1], block=[THREADS, 1, 1], stream=stream)

    return host
