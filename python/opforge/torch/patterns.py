"""Which formulas are which operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import formulas as f
from .formulas import Tree, add, mul


def _tensor(name: str) -> Tree:
    return ("tensor", name)


def _plus_constant(x: Tree, name: str) -> Tree:
    return ("add", 0.0, (x, ("constant", name)))


X, W, B, R = _tensor("x"), _tensor("w"), _tensor("b"), _tensor("residual")


def _normalised(x: Tree) -> Tree:
    return mul(x, ("rsqrt", _plus_constant(f.mean(mul(x, x)), "eps")))


def _centered(x: Tree) -> Tree:
    middle = add(x, mul(-1.0, ("mean", x)))
    return mul(middle, ("rsqrt", _plus_constant(("var", x), "eps")))


@dataclass(frozen=True)
class Pattern:
    """A formula of an operator."""

    op: str
    tree: Tree
    attributes: dict[str, Any] = field(default_factory=dict)  # beside the constants
    outputs: int = 1
    ones: tuple[str, ...] = ()  # tensors that the formula lacks and that are ones for the operator


def _gelu(x: Tree) -> list[tuple[Tree, str]]:
    erf = mul(0.5, x, add(1.0, ("erf", mul(x, 1 / math.sqrt(2)))))
    c = math.sqrt(2 / math.pi)
    inner = add(x, mul(0.044715, x, x, x))
    outer = mul(c, x, add(1.0, mul(0.044715, x, x)))
    rows = [(erf, "erf"), (("gelu", x, "none"), "erf"), (("gelu", x, "tanh"), "tanh")]
    for argument in (mul(c, inner), outer):
        rows.append((mul(0.5, x, add(1.0, ("tanh", argument))), "tanh"))
    return rows


_SUM = add(X, R)
_EXP = ("exp", add(X, mul(-1.0, ("amax", X))))

PATTERNS: list[Pattern] = [
    Pattern("norm.rms_norm", mul(_normalised(X), W)),
    Pattern("norm.rms_norm", mul(_normalised(X), add(1.0, W)), {"zero_centered": True}),
    Pattern("norm.rms_norm", _normalised(X), ones=("w",)),
    Pattern("norm.layer_norm", add(mul(_centered(X), W), B)),
    Pattern("norm.layer_norm", mul(_centered(X), W)),
    Pattern("norm.layer_norm", _centered(X), ones=("w",)),
    Pattern("norm.fused_add_rms_norm", ("tuple", mul(_normalised(_SUM), W), _SUM), outputs=2),
    Pattern("norm.fused_add_rms_norm", mul(_normalised(_SUM), W)),
    Pattern("norm.fused_add_layer_norm", ("tuple", add(mul(_centered(_SUM), W), B), _SUM),
            outputs=2),
    Pattern("norm.fused_add_layer_norm", add(mul(_centered(_SUM), W), B)),
    Pattern("reduction.softmax", ("softmax", X)),
    Pattern("reduction.softmax", mul(_EXP, ("inverse", ("sum", _EXP)))),
    Pattern("activation.relu", ("relu", X)),
    Pattern("activation.silu_and_mul", mul(f.silu(("half", X, 0)), ("half", X, 1))),
    *(Pattern("activation.gelu", tree, {"form": form}) for tree, form in _gelu(X)),
]


@dataclass(frozen=True)
class Match:
    """A function that is an operator: which leaf of it is which tensor."""

    op: str
    tensors: dict[str, str]  # tensor of the operator -> leaf of the function
    attributes: dict[str, Any]
    outputs: int
    ones: tuple[str, ...]


def recognise(tree: Tree, available: Callable[[str], bool]) -> Match | None:
    """The operator that a formula is, among those that are available."""
    for pattern in PATTERNS:
        tensors: dict[str, Tree] = {}
        constants: dict[str, float] = {}
        if available(pattern.op) and f.match(pattern.tree, tree, tensors, constants):
            return Match(
                pattern.op,
                {name: leaf[1] for name, leaf in tensors.items()},
                {**pattern.attributes, **constants},
                pattern.outputs,
                pattern.ones,
            )
    return None
