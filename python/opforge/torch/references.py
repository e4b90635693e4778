"""Formulas of operators in PyTorch, for gradients without backward kernels.

They compute in f32 at least, and in f64 where they are given f64. Not for speed.
"""

from __future__ import annotations

import torch
from torch.nn import functional


def _wide(*tensors):
    wide = torch.float64 if tensors[0].dtype == torch.float64 else torch.float32
    return tuple(None if tensor is None else tensor.to(wide) for tensor in tensors)


def scale(x, *, alpha):
    return (_wide(x)[0] * alpha).to(x.dtype)


def relu(x):
    return torch.relu(x)


def gelu(x, *, form="erf"):
    approximate = "tanh" if form == "tanh" else "none"
    return functional.gelu(_wide(x)[0], approximate=approximate).to(x.dtype)


def silu_and_mul(x):
    gate, value = _wide(x)[0].chunk(2, dim=-1)
    return (functional.silu(gate) * value).to(x.dtype)


def softmax(x):
    return torch.softmax(_wide(x)[0], dim=-1).to(x.dtype)


def rms_norm(x, w, *, eps, zero_centered=False):
    wide, weight = _wide(x, w)
    weight = weight + 1 if zero_centered else weight
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def layer_norm(x, w=None, b=None, *, eps):
    wide, weight, bias = _wide(x, w, b)
    return functional.layer_norm(wide, wide.shape[-1:], weight, bias, eps).to(x.dtype)


def fused_add_rms_norm(x, residual, w, *, eps):
    wide, other, weight = _wide(x, residual, w)
    total = wide + other
    y = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight
    return y.to(x.dtype), total.to(residual.dtype)


def fused_add_layer_norm(x, residual, w, b=None, *, eps):
    wide, other, weight, bias = _wide(x, residual, w, b)
    total = wide + other
    y = functional.layer_norm(total, total.shape[-1:], weight, bias, eps)
    return y.to(x.dtype), total.to(residual.dtype)


REFERENCES = {
    "activation.gelu": gelu,
    "activation.relu": relu,
    "activation.silu_and_mul": silu_and_mul,
    "elementwise.copy": lambda x: x.clone(),
    "elementwise.scale": scale,
    "norm.fused_add_layer_norm": fused_add_layer_norm,
    "norm.fused_add_rms_norm": fused_add_rms_norm,
    "norm.layer_norm": layer_norm,
    "norm.rms_norm": rms_norm,
    "reduction.softmax": softmax,
}

# Inputs whose gradient is that of another input, so that backward kernels give it once.
SAME_GRADIENT = {
    "norm.fused_add_layer_norm": {"residual": "x"},
    "norm.fused_add_rms_norm": {"residual": "x"},
}
