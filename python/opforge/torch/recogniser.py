"""From a plain function or module to the operator that it is, or the reason why it is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import ShapeProp

from . import patterns
from .formulas import NotPlain, Reader


def _reachable(module: fx.GraphModule) -> set[fx.Node]:
    seen: set[fx.Node] = set()
    pending = [node for node in module.graph.nodes if node.op == "output"]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending += node.all_input_nodes
    return seen


def _drop_unused(module: fx.GraphModule) -> None:
    """Removes what tracing adds for constant arguments; anything else unused has a side effect."""
    reachable = _reachable(module)
    for node in reversed(list(module.graph.nodes)):
        if node in reachable or node.op in ("placeholder", "output"):
            continue
        harmless = node.op == "get_attr" or getattr(node.target, "__name__", "") in (
            "eq", "_assert", "getattr", "size")
        if not harmless:
            raise NotPlain(f"{node.name}, which is not part of the result")
        module.graph.erase_node(node)


def trace(function: Any, arguments: dict[str, Any]) -> fx.GraphModule:
    """The function's graph, its shapes and dtypes from a run on these arguments (in order).

    Raises NotPlain where it cannot be traced: control flow on values, or side effects.
    """
    constants = {k: v for k, v in arguments.items() if not isinstance(v, torch.Tensor)}
    try:
        module = fx.symbolic_trace(function, concrete_args=constants or None)
    except Exception as error:  # whatever a plain function raises when it is given proxies
        raise NotPlain(f"it cannot be traced: {type(error).__name__}: {error}") from error
    try:
        with torch.no_grad():
            ShapeProp(module).propagate(*arguments.values())
    except Exception as error:
        raise NotPlain(f"its shapes are not known: {type(error).__name__}: {error}") from error
    _drop_unused(module)
    return module


def recognise(
    function: Any, arguments: dict[str, Any], available: Callable[[str], bool]
) -> patterns.Match:
    """The operator that the function is. Raises NotPlain with the reason why it is none."""
    tree = Reader(trace(function, arguments)).read()
    found = patterns.recognise(tree, available)
    if found is None:
        raise NotPlain("its formula is none of an operator that is available here")
    return found
