"""Serves the sentence encoder with opforge: traces it, tunes and builds from the trace, then serves sealed and compares.

    python serve.py [--device cuda --dtype f16 --graph] [--budget 8] [--pack minilm.ofpack]

Prints what was substituted and what not, how much of the traced time the pack covers, the least cosine between the embeddings of
the original and those served, and the time of a batch beside eager (and, with --compile, compiled) PyTorch.
"""
import argparse
import copy
import pathlib
import statistics
import tempfile
import time

import model
import torch

import opforge
from opforge import workload
from opforge.torch import substitute

HERE = pathlib.Path(__file__).parent
OPERATORS = ["norm.layer_norm", "activation.gelu", "linear.gemm", "reduction.softmax", "attention.scaled_dot_product_attention"]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def embed(encoder, batches):
    with torch.inference_mode():
        return torch.cat([encoder(*batch).float() for batch in batches])


def milliseconds(encoder, batch, rounds: int = 9) -> float:
    """The median of runs over one batch, after two that are not counted."""
    times = []
    with torch.inference_mode():
        for round_ in range(rounds + 2):
            start = time.perf_counter()
            encoder(*batch)
            if batch[0].is_cuda:
                torch.cuda.synchronize()
            if round_ >= 2:
                times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def graphed(encoder, batch):
    """The encoder over this batch as one CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.inference_mode():
        for _ in range(2):
            encoder(*batch)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        answer = encoder(*batch)

    def replay(*_):
        graph.replay()
        return answer

    return replay


def make_pack(encoder, batches, args) -> str:
    """Traces a run over a pack of defaults, tunes the heaviest calls, and builds a pack for exactly what was called."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="opforge-minilm-"))
    opforge.build(OPERATORS, output=folder / "first.ofpack", from_cases=True, dtype=args.dtype, backend="cpu", target="native")
    context = opforge.Context()
    opforge.load_pack(folder / "first.ofpack", context=context)
    traced = copy.deepcopy(encoder)
    substitute(traced, context=context)
    with opforge.trace() as trace:
        embed(traced, batches)
    for load in workload.loads(trace, context)[:6]:
        print(f"traced {load.op} {load.dims}: {load.calls} calls, {load.host_us / 1e3:.1f} ms")
    if args.budget:
        for report in workload.tune_trace(trace, context=context, most=args.most, budget=args.budget, prove=False):
            print(f"tuned {report.context}: {report.speedup:.2f}x ({report.why})")
    output = args.pack or str(folder / "minilm.ofpack")
    workload.build_trace(trace, output=output, context=context, backend="cpu", target="native")
    return output


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sentences", type=int, default=300, help="how many of sentences.txt")
    parser.add_argument("--budget", type=int, default=0, help="candidates to try for each of the heaviest traced calls; 0: defaults")
    parser.add_argument("--most", type=int, default=4, help="how many traced calls are tuned")
    parser.add_argument("--pack", help="an existing pack is served; else the new one is written there")
    parser.add_argument("--graph", action="store_true", help="serve each batch as a CUDA graph")
    parser.add_argument("--compile", action="store_true", help="time torch.compile too")
    args = parser.parse_args()
    encoder = model.load_encoder().to(args.device, DTYPES[args.dtype])
    sentences = (HERE / "sentences.txt").read_text().splitlines()[: args.sentences]
    batches = [(ids.to(args.device), mask.to(args.device)) for ids, mask in model.batches(sentences, args.batch)]
    original = embed(encoder, batches)

    path = args.pack if args.pack and pathlib.Path(args.pack).exists() else make_pack(encoder, batches, args)
    opforge.seal()
    opforge.load_pack(path)
    served = copy.deepcopy(encoder)
    report = substitute(served)
    print(report)
    with opforge.trace() as trace:
        answer = embed(served, batches)
    covered = opforge.coverage(trace, path)
    cosine = float(torch.nn.functional.cosine_similarity(original, answer).min())
    print(f"\ncalls served: {sum(report.served.values())} of {sorted(set(report.replaced.values()))}")
    for where, why in report.fell_back.items():
        print(f"fell back: {where}: {why}")
    print(f"coverage of the traced time: {covered.share:.3f}")
    print(f"least cosine to the original: {cosine:.7f}")
    batch = batches[len(batches) // 2]
    run = graphed(served, batch) if args.graph else served
    line = f"a batch of {tuple(batch[0].shape)}: opforge {milliseconds(run, batch):.2f} ms, eager {milliseconds(encoder, batch):.2f} ms"
    if args.graph:
        line += f", eager in a graph {milliseconds(graphed(encoder, batch), batch):.2f} ms"
    if args.compile:
        line += f", torch.compile {milliseconds(torch.compile(encoder, dynamic=False), batch):.2f} ms"
    print(line)
    return 0 if cosine >= 0.99999 and not report.fell_back and covered.share >= 0.9 else 1


if __name__ == "__main__":
    raise SystemExit(main())
