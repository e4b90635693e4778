#!/usr/bin/env python3
"""Times PyTorch's own operators (eager and torch.compile) on a GPU, for comparison with `opforge bench` in the same run.

Device time by CUDA graph replay, random inputs rotated through more than the L2, median of rounds. Prints one JSON object:
{"device", "torch", "copy_gbs", "rows": [{"op", "rows", "width", "dtype", "peer", "median_us", "gbs", "share"}]}.
share = bytes that the operator must move / time / copy rate of the same run.
"""
import argparse
import json
import statistics

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def graph_us(calls, rounds=15, inner=None):
    """Median microseconds of one call; `calls` are closures over different buffers."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:3]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    repeat = inner or max(1, 20 // len(calls))
    with torch.cuda.graph(graph):
        for _ in range(repeat):
            for call in calls:
                call()
    graph.replay()
    torch.cuda.synchronize()
    samples = []
    for _ in range(rounds):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(stop) * 1e3 / (repeat * len(calls)))
    return statistics.median(samples)


def copy_gbs():
    n = 1 << 30
    a, b = torch.empty(n, dtype=torch.uint8, device="cuda").random_(), torch.empty(n, dtype=torch.uint8, device="cuda")
    times = []
    for _ in range(9):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        b.copy_(a)
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return 2 * n / statistics.median(times) / 1e6


def silu_and_mul(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def fused_add_rms_norm(width, weight):
    residuals = {}

    def call(x):
        residual = residuals.setdefault(x.data_ptr(), torch.randn_like(x))
        summed = x + residual
        residual.copy_(summed)
        return F.rms_norm(summed, (width,), weight, 1e-6)

    return call


def functions(width, dtype, scale=0.5):
    """By operator: the call, how often a tensor of rows x width is read or written at least, and the input's width over `width`."""
    w = torch.randn(width, device="cuda", dtype=dtype)
    b = torch.randn(width, device="cuda", dtype=dtype)
    return {
        "reduction.softmax": (lambda x: torch.softmax(x, -1), 2, 1),
        "norm.rms_norm": (lambda x: F.rms_norm(x, (width,), w, 1e-6), 2, 1),
        "norm.layer_norm": (lambda x: F.layer_norm(x, (width,), w, b, 1e-5), 2, 1),
        "norm.fused_add_rms_norm": (fused_add_rms_norm(width, w), 4, 1),
        "reduction.reduce_sum": (lambda x: x.sum(-1), 1, 1),
        "elementwise.scale": (lambda x: x * scale, 2, 1),
        "activation.gelu": (F.gelu, 2, 1),
        "activation.silu_and_mul": (silu_and_mul, 3, 2),
    }


def matmul_rows(sizes, dtypes):
    """y = x w^T for square sizes, by the framework's own library."""
    rows = []
    for size in sizes:
        for name in dtypes:
            x = [torch.randn(size, size, device="cuda", dtype=DTYPES[name]) for _ in range(3)]
            w = torch.randn(size, size, device="cuda", dtype=DTYPES[name])
            us = graph_us([lambda a=a: a @ w.t() for a in x], inner=2)
            rows.append({"op": "linear.gemm", "rows": size, "width": size, "dtype": name, "peer": "torch eager",
                         "median_us": round(us, 3), "tflops": round(2 * size**3 / us / 1e6, 1)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="16384x4096,8192x8192,4096x32768,512x4096,32x4096,1x4096")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--ops", default="reduction.softmax,norm.rms_norm")
    parser.add_argument("--matmul", default="", help="sizes of square matrix products, e.g. 4096,8192")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--output", default="-")
    args = parser.parse_args()
    torch.manual_seed(1)
    ceiling = copy_gbs()
    rows = []
    for shape in args.shapes.split(","):
        m, n = map(int, shape.split("x"))
        for dtype_name in args.dtypes.split(","):
            dtype = DTYPES[dtype_name]
            itemsize = torch.empty(0, dtype=dtype).element_size()
            sets = max(2, min(8, 240_000_000 // (m * n * itemsize) + 1))
            for op, (function, passes, wider) in functions(n, dtype).items():
                if op not in args.ops.split(","):
                    continue
                inputs = [torch.randn(m, n * wider, device="cuda", dtype=dtype) for _ in range(sets)]
                peers = {"torch eager": function}
                if not args.no_compile:
                    torch._dynamo.reset()
                    peers["torch.compile"] = torch.compile(function, dynamic=False)
                for peer, call in peers.items():
                    call(inputs[0])
                    us = graph_us([lambda x=x, call=call: call(x) for x in inputs])
                    moved = passes * m * n * itemsize
                    gbs = moved / us / 1e3
                    rows.append({"op": op, "rows": m, "width": n, "dtype": dtype_name, "peer": peer,
                                 "median_us": round(us, 3), "gbs": round(gbs, 1), "share": round(gbs / ceiling, 4)})
                del inputs
    rows += matmul_rows([int(size) for size in args.matmul.split(",") if size], args.dtypes.split(","))
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_gbs": round(ceiling, 1), "rows": rows}
    text = json.dumps(result, indent=1)
    if args.output == "-":
        print(text)
    else:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
