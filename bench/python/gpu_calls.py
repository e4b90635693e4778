#!/usr/bin/env python3
"""Wall time of calls from Python on a GPU: rms_norm of 1 x 4096 (bf16), 1,000 calls one after the other, then one wait.

    PYTHONPATH=build/python python3 bench/python/gpu_calls.py

Compares opforge (op(out=), a prepared plan, a custom op) with F.rms_norm, a compiled function and a launch of Triton's own.
Prints JSON.
"""
import json
import statistics
import tempfile
import time

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import opforge
from opforge.torch import to_custom_op

CALLS, ROUNDS, WIDTH = 1000, 9, 4096


@triton.jit
def triton_rms_norm(x, w, y, eps, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v) / N + eps)
    tl.store(y + at, (v * scale * tl.load(w + at).to(tl.float32)).to(tl.bfloat16))


def microseconds(call):
    """Median over rounds of the wall time of one call."""
    for _ in range(50):
        call()
    torch.cuda.synchronize()
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / CALLS * 1e6)
    return round(statistics.median(rounds), 3)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rms.ofpack"
        opforge.build("norm.rms_norm", output=path, shapes={"M": 1, "N": WIDTH}, dtype="bf16", backend="cuda")
        opforge.verify(pack=path, attest=f"{folder}/proofs")
        opforge.pack.attest(path, [f"{folder}/proofs"])
        opforge.load_pack(path)
        norm = opforge.operator("norm.rms_norm")
        x, w = torch.randn(1, WIDTH, device="cuda", dtype=torch.bfloat16), torch.randn(WIDTH, device="cuda", dtype=torch.bfloat16)
        y = torch.empty_like(x)
        custom = to_custom_op(norm)
        compiled = torch.compile(lambda x, w: F.rms_norm(x, (WIDTH,), w, 1e-6), dynamic=False)
        norm(x, w, out=y, eps=1e-6)
        torch.testing.assert_close(y, F.rms_norm(x, (WIDTH,), w, 1e-6), rtol=0.02, atol=0.02)
        with torch.no_grad(), norm.prepare(x, w, out=y, eps=1e-6) as plan:
            rows = {
                "opforge prepared plan": microseconds(lambda: plan(x, w, out=y)),
                "opforge op(out=)": microseconds(lambda: norm(x, w, out=y, eps=1e-6)),
                "opforge op()": microseconds(lambda: norm(x, w, eps=1e-6)),
                "opforge custom op": microseconds(lambda: custom(x, w, eps=1e-6)),
                "F.rms_norm": microseconds(lambda: F.rms_norm(x, (WIDTH,), w, 1e-6)),
                "torch.compile": microseconds(lambda: compiled(x, w)),
                "Triton launch": microseconds(lambda: triton_rms_norm[(1,)](x, w, y, 1e-6, N=WIDTH, num_warps=8)),
            }
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
                      "us_per_call": rows}, indent=1))


if __name__ == "__main__":
    main()
