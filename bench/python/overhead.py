"""What calling from Python adds: overhead.py PACK [--baseline PROGRAM] [--key KEY] [--json FILE]

One thread, rms_norm of 1 x 64 f32, so that the call is what takes the time. Each figure is the best
of 300 rounds of 1,000 calls, in nanoseconds a call. PyTorch's figures are there where PyTorch is.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import timeit

import numpy as np

import opforge

ROUNDS, CALLS = 300, 1_000


def best_ns(call, calls=CALLS):
    return min(timeit.repeat(call, number=calls, repeat=ROUNDS)) / calls * 1e9


def import_ms():
    source = "import time; s = time.perf_counter(); import opforge; print(time.perf_counter() - s)"
    runs = [
        float(subprocess.run([sys.executable, "-c", source], capture_output=True, text=True,
                             check=True).stdout)
        for _ in range(11)
    ]
    return min(runs) * 1e3


def calls_of(op, x, w, y):
    plan = op.prepare(x, w, out=y)
    return {
        "prepared": best_ns(lambda: plan(x, w, out=y)),
        "out": best_ns(lambda: op(x, w, out=y)),
        "allocating": best_ns(lambda: op(x, w)),
    }


def pytorch(op, context):
    import torch

    torch.set_num_threads(1)
    x, w = torch.randn(1, 64), torch.randn(64)
    y = torch.empty_like(x)
    found = calls_of(op, x, w, y)
    found["torch.add(out=)"] = best_ns(lambda: torch.add(x, x, out=y))
    found["lambda"] = best_ns(lambda: None)

    library = torch.library.Library("opforge_bench", "DEF")
    library.define("nothing(Tensor x, Tensor w, *, float eps=1e-6) -> Tensor")
    library.impl("nothing", lambda x, w, eps=1e-6: torch.empty_like(x),
                 "CompositeExplicitAutograd")
    nothing = torch.ops.opforge_bench.nothing.default
    custom = opforge.torch.to_custom_op(op, context=context)
    found["custom op"] = best_ns(lambda: custom(x, w))
    found["a custom op that only allocates"] = best_ns(lambda: nothing(x, w))

    trained, t = opforge.torch.to_autograd(op, context=context), x.clone().requires_grad_()
    gradient = torch.ones_like(x)
    found["to_autograd, forward + backward"] = best_ns(
        lambda: trained(t, w).backward(gradient), 100)
    found["register_autograd, forward + backward"] = best_ns(
        lambda: custom(t, w).backward(gradient), 100)
    return torch.__version__, found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pack")
    parser.add_argument("--baseline")
    parser.add_argument("--key", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    opforge.set_threads(1)
    context = opforge.Context()
    keys = [options.key] if options.key else []
    opforge.load_pack(options.pack, trusted_keys=keys, context=context)
    op = context.operator("norm.rms_norm")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 64)).astype("f4"), rng.standard_normal(64).astype("f4")
    report = {
        "machine": opforge.devices()[0].model,
        "python": platform.python_version(),
        "import_ms": import_ms(),
        "numpy_ns": calls_of(op, x, w, np.empty_like(x)),
    }
    if options.baseline:
        key = options.key or opforge.pack.inspect(options.pack).signer
        done = subprocess.run([options.baseline, options.pack, key], capture_output=True, text=True,
                              check=True)
        report["cpp_ns"] = json.loads(done.stdout)
    try:
        report["torch"], report["torch_ns"] = pytorch(op, context)
    except ImportError as error:
        report["torch"] = f"not installed: {error}"
    text = json.dumps(report, indent=2)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + os.linesep)


if __name__ == "__main__":
    main()
