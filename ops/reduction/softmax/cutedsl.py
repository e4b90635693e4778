"""Softmax of rows whose columns are contiguous: a block a row, in three passes over it: maximum, sum (in double), quotients.

Rows start at 16-byte boundaries and have a multiple of VEC columns. A maximum passes NaN over, the sum does not."""
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Float64, Int32, Int64

LOG2_E = 1.4426950408889634


def softmax(T, THREADS):
    VEC = 128 // T.width

    @cute.kernel
    def device(x: cute.Pointer, y: cute.Pointer, columns: Int32, x_row_stride: Int64, y_row_stride: Int64):
        thread, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        tops = cute.make_tensor(cute.arch.alloc_smem(Float32, THREADS), cute.make_layout(THREADS))
        sums = cute.make_tensor(cute.arch.alloc_smem(Float64, THREADS), cute.make_layout(THREADS))
        source = x + cute.assume(Int64(row) * x_row_stride, divby=VEC)
        target = y + cute.assume(Int64(row) * y_row_stride, divby=VEC)
        most = Float32(-float("inf"))
        vector = Int32(thread)
        while vector < columns // VEC:
            at = cute.assume(vector * VEC, divby=VEC)
            values = cute.make_rmem_tensor(VEC, T)
            cute.autovec_copy(cute.make_tensor(source + at, cute.make_layout(VEC)), values)
            for k in cutlass.range_constexpr(VEC):
                most = cute.arch.fmax(most, values[k].to(Float32))
            vector += THREADS
        tops[thread] = most
        cute.arch.sync_threads()
        for k in cutlass.range_constexpr(THREADS.bit_length() - 1):
            step = THREADS >> (k + 1)
            if thread < step:
                tops[thread] = cute.arch.fmax(tops[thread], tops[thread + step])
            cute.arch.sync_threads()
        most = tops[0]
        total = Float64(0.0)
        vector = Int32(thread)
        while vector < columns // VEC:
            at = cute.assume(vector * VEC, divby=VEC)
            values = cute.make_rmem_tensor(VEC, T)
            cute.autovec_copy(cute.make_tensor(source + at, cute.make_layout(VEC)), values)
            for k in cutlass.range_constexpr(VEC):
                total += cute.math.exp2((values[k].to(Float32) - most) * Float32(LOG2_E)).to(Float64)
            vector += THREADS
        sums[thread] = total
        cute.arch.sync_threads()
        for k in cutlass.range_constexpr(THREADS.bit_length() - 1):
            step = THREADS >> (k + 1)
            if thread < step:
                sums[thread] = sums[thread] + sums[thread + step]
            cute.arch.sync_threads()
        scale = (Float64(1.0) / sums[0]).to(Float32)
        vector = Int32(thread)
        while vector < columns // VEC:
            at = cute.assume(vector * VEC, divby=VEC)
            values = cute.make_rmem_tensor(VEC, T)
            cute.autovec_copy(cute.make_tensor(source + at, cute.make_layout(VEC)), values)
            for k in cutlass.range_constexpr(VEC):
                values[k] = (cute.math.exp2((values[k].to(Float32) - most) * Float32(LOG2_E)) * scale).to(T)
            cute.autovec_copy(values, cute.make_tensor(target + at, cute.make_layout(VEC)))
            vector += THREADS

    @cute.jit
    def host(x: cute.Pointer, y: cute.Pointer, columns: Int32, x_row_stride: Int64, y_row_stride: Int64, stream):
        device(x, y, columns, x_row_stride, y_row_stride).launch(grid=[columns, 1, 1], block=[THREADS, 1, 1], stream=stream)

    return host
