"""RMS normalisation of rows whose columns are contiguous: a block a row; the mean square and every result in double, rounded once.

Rows start at 16-byte boundaries and have a multiple of VEC columns. Partial sums meet in shared memory, by a tree."""
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Float64, Int32, Int64


def rms_norm(T, W, THREADS, zero_centered):
    VEC = 128 // max(T.width, W.width)

    @cute.kernel
    def device(x: cute.Pointer, w: cute.Pointer, y: cute.Pointer, columns: Int32, eps: Float32, x_row_stride: Int64,
               y_row_stride: Int64):
        thread, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        part = cute.make_tensor(cute.arch.alloc_smem(Float64, THREADS), cute.make_layout(THREADS))
        source = x + cute.assume(Int64(row) * x_row_stride, divby=VEC)
        target = y + cute.assume(Int64(row) * y_row_stride, divby=VEC)
        squares = Float64(0.0)
        vector = Int32(thread)
        while vector < columns // VEC:
            at = cute.assume(vector * VEC, divby=VEC)
            values = cute.make_rmem_tensor(VEC, T)
            cute.autovec_copy(cute.make_tensor(source + at, cute.make_layout(VEC)), values)
            for k in cutlass.range_constexpr(VEC):
                value = values[k].to(Float64)
                squares += value * value
            vector += THREADS
        part[thread] = squares
        cute.arch.sync_threads()
        for k in cutlass.range_constexpr(THREADS.bit_length() - 1):
            step = THREADS >> (k + 1)
            if thread < step:
                part[thread] = part[thread] + part[thread + step]
            cute.arch.sync_threads()
        scale = Float64(1.0) / cute.math.sqrt(part[0] / columns.to(Float64) + eps.to(Float64))
        vector = Int32(thread)
        while vector < columns // VEC:
            at = cute.assume(vector * VEC, divby=VEC)
            values = cute.make_rmem_tensor(VEC, T)
            weights = cute.make_rmem_tensor(VEC, W)
            cute.autovec_copy(cute.make_tensor(source + at, cute.make_layout(VEC)), values)
            cute.autovec_copy(cute.make_tensor(w + at, cute.make_layout(VEC)), weights)
            for k in cutlass.range_constexpr(VEC):
                weight = weights[k].to(Float64)
                if cutlass.const_expr(zero_centered):
                    weight = weight + Float64(1.0)
                values[k] = (values[k].to(Float64) * scale * weight).to(Float32).to(T)
            cute.autovec_copy(values, cute.make_tensor(target + at, cute.make_layout(VEC)))
            vector += THREADS

    @cute.jit
    def host(x: cute.Pointer, w: cute.Pointer, y: cute.Pointer, columns: Int32, eps: Float32, x_row_stride: Int64,
             y_row_stride: Int64, stream):
        device(x, w, y, columns, eps, x_row_stride, y_row_stride).launch(grid=[columns, 1, 1], block=[THREADS, 1, 1], stream=stream)

    return host
