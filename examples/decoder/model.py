"""A small decoder over bytes: pre-norm layers of rotary attention and a gated MLP. Its norms, rotations, gate and loss come from
a table of operators, so that the same model trains with PyTorch's own or with opforge's."""
import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LAYERS, INNER, LENGTH, VOCABULARY = 128, 4, 2, 256, 128, 256


@dataclasses.dataclass(frozen=True)
class Operators:
    """rms_norm(x, w); rope(x, cos, sin) over x: (batch, length, heads, dim), halves rotated, cos and sin: (length, dim / 2);
    swiglu of (..., 2n); cross_entropy of (tokens, vocabulary) and (tokens,), a mean."""

    rms_norm: Callable
    rope: Callable
    swiglu: Callable
    cross_entropy: Callable


def angles(length: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of positions x (dim / 2) frequencies, base 10,000."""
    inverse = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * inverse
    return angle.cos().float(), angle.sin().float()


def torch_rope(x, cos, sin):
    low, high = x.chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat([low * c - high * s, high * c + low * s], -1)


def torch_operators() -> Operators:
    def swiglu(x):
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up

    return Operators(lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6), torch_rope, swiglu, F.cross_entropy)


def opforge_operators() -> Operators:
    """Those of the open packs, with gradients by their own backward kernels. Those for the CPU are DETERMINISTIC."""
    import opforge
    from opforge.torch import to_autograd

    norm, rope, gate, loss = (
        to_autograd(opforge.operator(name))
        for name in ("norm.rms_norm", "embedding.rope", "activation.silu_and_mul", "loss.cross_entropy")
    )
    return Operators(
        lambda x, w: norm(x, w, eps=1e-6),
        lambda x, cos, sin: rope(x, cos, sin),
        lambda x: gate(x),
        lambda x, target: loss(x, target)[1].mean(),
    )


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x, operators: Operators, cos, sin):
        batch, length, _ = x.shape
        q, k, v = self.qkv(operators.rms_norm(x, self.norm1)).chunk(3, -1)
        q, k, v = (part.reshape(batch, length, HEADS, -1) for part in (q, k, v))
        q, k = (operators.rope(part, cos, sin) for part in (q, k))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(operators.swiglu(self.up(operators.rms_norm(x, self.norm2))))


class Decoder(nn.Module):
    """ids: (batch, length) -> the mean loss of predicting `targets`, of the same shape."""

    def __init__(self, operators: Operators):
        super().__init__()
        self.operators = operators
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        cos, sin = angles(LENGTH, WIDTH // HEADS)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, self.operators, self.cos, self.sin)
        logits = self.head(self.operators.rms_norm(x, self.norm))
        return self.operators.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
