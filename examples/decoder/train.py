"""Trains the small decoder on text.txt twice with opforge's operators, once with PyTorch's, and compares.

    python train.py --steps 300 --curve losses.svg

Prints the losses side by side and whether both runs with opforge ended with the same weights, bit for bit (the kernels are
DETERMINISTIC).
"""
import argparse
import hashlib
import pathlib
import tempfile

import model
import torch

import opforge

HERE = pathlib.Path(__file__).parent
OPERATORS = ("norm.rms_norm", "embedding.rope", "activation.silu_and_mul", "loss.cross_entropy")


def open_pack(path: str | None) -> None:
    """The pack that is named, else one that is built here for this machine's CPU."""
    if path is None:
        names = [name for op in OPERATORS for name in (op, op + "_backward")]
        path = str(pathlib.Path(tempfile.mkdtemp(prefix="opforge-decoder-")) / "decoder.ofpack")
        report = opforge.build(names, output=path, from_cases=True, dtype="f32", backend="cpu", target="native")
        print(f"built {path}: {report.compiled} compiled, {report.loaded} loaded, {report.attested} attested")
    opforge.load_pack(path)
    opforge.seal()


def train(operators: model.Operators, steps: int, batch: int = 8) -> tuple[list[float], str]:
    """Losses of every step, and a digest of the weights that were reached. The same seeds each time."""
    text = torch.tensor(list((HERE / "text.txt").read_bytes()))
    torch.manual_seed(7)
    decoder = model.Decoder(operators)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=2e-3)
    draw = torch.Generator().manual_seed(11)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(text) - model.LENGTH - 1, (batch,), generator=draw)
        rows = torch.stack([text[start:start + model.LENGTH + 1] for start in starts])
        loss = decoder(rows[:, :-1], rows[:, 1:].contiguous())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    digest = hashlib.sha256()
    for weight in decoder.state_dict().values():
        digest.update(weight.numpy().tobytes())
    return losses, digest.hexdigest()[:16]


def write_curve(path: str, curves: dict[str, list[float]]) -> None:
    """The losses as a picture (SVG)."""
    width, height, left, bottom = 640, 320, 40, 290
    top = max(max(losses) for losses in curves.values())
    lines = []
    for (name, losses), (color, dash) in zip(curves.items(), (("#d95f02", ""), ("#1b6ca8", "6 5")), strict=True):
        x_step = (width - left - 10) / max(1, len(losses) - 1)
        points = " ".join(f"{left + i * x_step:.1f},{bottom - loss / top * (bottom - 20):.1f}" for i, loss in enumerate(losses))
        y = 30 + 18 * len(lines)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>'
                     f'<text x="{width - 150}" y="{y}" fill="{color}">{name}</text>')
    ticks = "".join(f'<text x="8" y="{bottom - value / top * (bottom - 20) + 4:.0f}">{value}</text>' for value in range(int(top) + 1))
    axis = f'<path d="M{left} 15V{bottom}H{width - 10}" stroke="#444" fill="none"/><text x="{width // 2 - 60}" y="{height - 6}">step (of {len(losses)})</text>'
    pathlib.Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">'
        f'<rect width="{width}" height="{height}" fill="white"/>{axis}{ticks}{"".join(lines)}</svg>\n')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pack", help="a pack with the operators and their gradients; default: built here")
    parser.add_argument("--curve", help="write the loss curves to this file (.svg)")
    args = parser.parse_args()
    open_pack(args.pack)
    torch.use_deterministic_algorithms(True)
    forge = model.opforge_operators()
    ours, first = train(forge, args.steps)
    _, second = train(forge, args.steps)
    theirs, _ = train(model.torch_operators(), args.steps)
    for step in sorted({*range(0, args.steps, max(1, args.steps // 8)), args.steps - 1}):
        print(f"step {step:4}: loss {ours[step]:.4f} (opforge) {theirs[step]:.4f} (PyTorch)")
    if args.curve:
        write_curve(args.curve, {"opforge": ours, "PyTorch": theirs})
    same = first == second
    print(f"weights after two runs: {first} and {second}: {'the same bits' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
