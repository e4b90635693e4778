"""Formulas in one form, however they are written: what recognition compares.

A traced function becomes a tree of tuples. Products are flat: ("mul", coefficient, factors), sums
too: ("add", constant, terms); differences, quotients, squares and powers are made of these, casts
between floating dtypes and operations that change nothing are dropped. What is not known here stays
in the tree as an atom of its own name, so that it never matches anything by accident.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx
from torch.nn import functional

Tree = Any  # float, or a tuple whose first element is a text


class NotPlain(Exception):
    """The function has something that no formula has; the text says what."""


def mul(*parts: Tree) -> Tree:
    """A flat product."""
    coefficient, factors = 1.0, []
    for part in parts:
        if isinstance(part, float):
            coefficient *= part
        elif part[0] == "mul":
            coefficient *= part[1]
            factors += part[2]
        else:
            factors.append(part)
    if coefficient == 1.0 and len(factors) == 1:
        return factors[0]
    return ("mul", coefficient, tuple(factors)) if factors else coefficient


def add(*parts: Tree) -> Tree:
    """A flat sum."""
    constant, terms = 0.0, []
    for part in parts:
        if isinstance(part, float):
            constant += part
        elif part[0] == "add":
            constant += part[1]
            terms += part[2]
        else:
            terms.append(part)
    if constant == 0.0 and len(terms) == 1:
        return terms[0]
    return ("add", constant, tuple(terms)) if terms else constant


def inverse(x: Tree) -> Tree:
    """1 / x."""
    if isinstance(x, float):
        return 1.0 / x
    if x[0] == "sqrt":
        return ("rsqrt", x[1])
    if x[0] == "mul":
        return mul(1.0 / x[1], *(inverse(factor) for factor in x[2]))
    return ("inverse", x)


def power(x: Tree, exponent: Tree) -> Tree:
    """x ** exponent for constant exponents."""
    if not isinstance(exponent, float):
        raise NotPlain("a power with a tensor exponent")
    if isinstance(x, float):
        return x**exponent
    if exponent == 0.5:
        return sqrt(x)
    if exponent == -0.5:
        return ("rsqrt", x)
    if exponent == -1:
        return inverse(x)
    if exponent == int(exponent) and 1 <= exponent <= 4:
        return mul(*([x] * int(exponent)))
    return ("pow", x, exponent)


def sqrt(x: Tree) -> Tree:
    return math.sqrt(x) if isinstance(x, float) else ("sqrt", x)


def sigmoid(x: Tree) -> Tree:
    return ("sigmoid", x)


def silu(x: Tree) -> Tree:
    return mul(x, sigmoid(x))


def tanh(x: Tree) -> Tree:
    return ("tanh", x)


def mean(x: Tree) -> Tree:
    """Over the last dim, kept. A mean of squared differences from the mean is the variance."""
    if isinstance(x, tuple) and x[0] == "mul" and x[1] == 1.0 and len(x[2]) == 2:
        a, b = x[2]
        if same(a, b) and a[0] == "add" and a[1] == 0.0 and len(a[2]) == 2:
            for first, second in (a[2], a[2][::-1]):
                if same(second, mul(-1.0, ("mean", first))):
                    return ("var", first)
    return ("mean", x)


def softmax(x: Tree) -> Tree:
    return ("softmax", x)


def same(a: Tree, b: Tree) -> bool:
    """Whether two trees are equal up to the order of factors and terms."""
    return match(a, b, {}, {}, loose=False)


def close(a: float, b: float) -> bool:
    """Constants as other libraries write them: 0.7978845608 is sqrt(2 / pi)."""
    return a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def match(pattern: Tree, tree: Tree, tensors: dict, constants: dict, loose: bool = True) -> bool:
    """Whether `tree` is an instance of `pattern`.

    ("tensor", name) of the pattern stands for one leaf of the tree, ("constant", name) for one
    number that is greater than 0; both dicts are filled in. Not loose: plain equality.
    """
    if loose and isinstance(pattern, tuple) and pattern[0] == "tensor":
        if not (isinstance(tree, tuple) and tree[0] == "leaf"):
            return False
        known = tensors.setdefault(pattern[1], tree)
        return known == tree and list(tensors.values()).count(tree) == 1
    if isinstance(pattern, float) or isinstance(tree, float):
        return isinstance(pattern, float) and isinstance(tree, float) and close(pattern, tree)
    if pattern[0] != tree[0]:
        return False
    if pattern[0] in ("mul", "add"):
        return _match_flat(pattern, tree, tensors, constants, loose)
    if pattern[0] in ("leaf", "tensor"):
        return pattern == tree
    if len(pattern) != len(tree):
        return False
    for a, b in zip(pattern[1:], tree[1:], strict=True):
        if isinstance(a, (tuple, float)):
            if not match(a, b, tensors, constants, loose):
                return False
        elif a != b:
            return False
    return True


def _match_flat(pattern, tree, tensors, constants, loose) -> bool:
    wanted, found = list(pattern[2]), list(tree[2])
    constant = pattern[1]
    if loose:  # ("constant", name) is in the list of terms, since it is no number yet
        named = [part for part in wanted if isinstance(part, tuple) and part[0] == "constant"]
        if named:
            wanted = [part for part in wanted if part not in named]
            if constants.setdefault(named[0][1], tree[1]) != tree[1] or tree[1] <= 0:
                return False
            constant = tree[1]
    if not close(constant, tree[1]) or len(wanted) != len(found):
        return False
    return _pair(wanted, found, tensors, constants, loose)


def _pair(wanted, found, tensors, constants, loose) -> bool:
    if not wanted:
        return True
    # What has the most structure first, so that plain tensors take what is left.
    wanted = sorted(wanted, key=lambda part: part[0] == "tensor")
    for i, part in enumerate(found):
        t, c = dict(tensors), dict(constants)
        if match(wanted[0], part, t, c, loose):
            rest = found[:i] + found[i + 1 :]
            if _pair(wanted[1:], rest, t, c, loose):
                tensors.clear()
                tensors.update(t)
                constants.clear()
                constants.update(c)
                return True
    return False


# --- From a traced function ---


class Reader:
    """Turns a graph of torch.fx, with shapes and dtypes of its nodes, into a tree."""

    def __init__(self, module: fx.GraphModule) -> None:
        self.module = module
        self.trees: dict[fx.Node, Tree] = {}
        self.used: list[fx.Node] = []

    def read(self) -> Tree:
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.trees[node] = ("leaf", node.name)
            elif node.op == "output":
                return self._value(node.args[0])
            elif node.op == "call_module":
                self.trees[node] = self._module(node)
            else:
                self.trees[node] = self._call(node)
        raise NotPlain("it returns nothing")

    def _value(self, value: Any) -> Tree:
        if isinstance(value, fx.Node):
            return self.trees[value]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            if isinstance(value, (tuple, list)):
                return ("tuple", *(self._value(each) for each in value))
            raise NotPlain(f"the value {value!r}")
        return float(value)

    @staticmethod
    def _meta(node: fx.Node) -> Any:
        meta = node.meta.get("tensor_meta")
        if meta is None or not hasattr(meta, "shape"):
            raise NotPlain(f"{node.name} is no tensor")
        return meta

    def _last_dim(self, node: fx.Node, dim: Any) -> bool:
        if isinstance(dim, (tuple, list)):
            if len(dim) != 1:
                return False
            dim = dim[0]
        return dim in (-1, len(self._meta(node).shape) - 1)

    def _module(self, node: fx.Node) -> Tree:
        module = self.module.get_submodule(node.target)
        if isinstance(module, torch.nn.SiLU):
            return silu(self._value(node.args[0]))
        if isinstance(module, torch.nn.Identity):
            return self._value(node.args[0])
        if isinstance(module, torch.nn.Dropout) and (not module.training or module.p == 0):
            return self._value(node.args[0])
        raise NotPlain(f"the module {type(module).__name__}")

    def _call(self, node: fx.Node) -> Tree:
        name = node.target if node.op == "call_method" else _FUNCTIONS.get(node.target)
        if name is None:
            raise NotPlain(f"{getattr(node.target, '__name__', node.target)}()")
        reader = getattr(self, f"_do_{name.strip('_')}", None) if not name.endswith("_") or (
            name.startswith("__")) else None
        if reader is None:
            raise NotPlain(f"{name}()")
        return reader(node, *node.args, **node.kwargs)

    # Arithmetic.
    def _do_add(self, node, a, b, alpha=1):
        return add(self._value(a), mul(self._value(b), float(alpha)))

    def _do_sub(self, node, a, b, alpha=1):
        return add(self._value(a), mul(self._value(b), -float(alpha)))

    def _do_rsub(self, node, a, b, alpha=1):
        return self._do_sub(node, b, a, alpha)

    def _do_mul(self, node, a, b):
        return mul(self._value(a), self._value(b))

    def _do_div(self, node, a, b, rounding_mode=None):
        if rounding_mode is not None:
            raise NotPlain("a division that rounds")
        return mul(self._value(a), inverse(self._value(b)))

    def _do_neg(self, node, x):
        return mul(-1.0, self._value(x))

    def _do_pow(self, node, x, exponent):
        return power(self._value(x), self._value(exponent))

    def _do_square(self, node, x):
        return power(self._value(x), 2.0)

    def _do_sqrt(self, node, x):
        return sqrt(self._value(x))

    def _do_rsqrt(self, node, x):
        return ("rsqrt", self._value(x))

    def _do_reciprocal(self, node, x):
        return inverse(self._value(x))

    def _do_exp(self, node, x):
        return ("exp", self._value(x))

    def _do_erf(self, node, x):
        return ("erf", self._value(x))

    def _do_tanh(self, node, x):
        return tanh(self._value(x))

    def _do_sigmoid(self, node, x):
        return sigmoid(self._value(x))

    def _do_silu(self, node, input, inplace=False):
        if inplace:
            raise NotPlain("a function that works in place")
        return silu(self._value(input))

    def _do_relu(self, node, input, inplace=False):
        if inplace:
            raise NotPlain("a function that works in place")
        return ("relu", self._value(input))

    # Reductions over the last dim.
    def _do_mean(self, node, input, dim=None, keepdim=False, dtype=None):
        if not keepdim or dim is None or not self._last_dim(input, dim):
            raise NotPlain("a mean that is not over the last dim, kept")
        return mean(self._value(input))

    def _do_sum(self, node, input, dim=None, keepdim=False, dtype=None):
        if not keepdim or dim is None or not self._last_dim(input, dim):
            raise NotPlain("a sum that is not over the last dim, kept")
        return ("sum", self._value(input))

    def _do_var(self, node, input, dim=None, unbiased=True, keepdim=False, correction=None):
        biased = correction == 0 or (correction is None and unbiased is False)
        if not biased or not keepdim or dim is None or not self._last_dim(input, dim):
            raise NotPlain("a variance that is not the biased one over the last dim, kept")
        return ("var", self._value(input))

    def _do_amax(self, node, input, dim=None, keepdim=False):
        if not keepdim or dim is None or not self._last_dim(input, dim):
            raise NotPlain("a maximum that is not over the last dim, kept")
        return ("amax", self._value(input))

    def _do_max(self, node, input, dim=None, keepdim=False):
        return ("tuple", self._do_amax(node, input, dim, keepdim), ("indices", self._value(input)))

    def _do_getattr(self, node, value, name):
        tree = self.trees[value]
        if name in ("values", "indices") and tree[0] == "tuple" and tree[2][0] == "indices":
            return tree[1 if name == "values" else 2]
        if name in ("dtype", "shape", "device"):  # of casts and shapes, which are not compared
            return ("attribute", name)
        raise NotPlain(f"the attribute {name}")

    # Casts between floating dtypes: what they round is judged by comparing values.
    def _cast(self, node, x):
        before, after = self._meta(x).dtype, self._meta(node).dtype
        if not (before.is_floating_point and after.is_floating_point):
            raise NotPlain(f"a cast from {before} to {after}")
        return self._value(x)

    def _do_float(self, node, x):
        return self._cast(node, x)

    def _do_to(self, node, x, *args, **kwargs):
        return self._cast(node, x)

    def _do_type_as(self, node, x, other):
        return self._cast(node, x)

    def _do_contiguous(self, node, x, memory_format=torch.contiguous_format):
        return self._value(x)

    def _do_dropout(self, node, input, p=0.5, training=True, inplace=False):
        if training and p != 0:
            raise NotPlain("dropout")
        return self._value(input)

    # PyTorch's own.
    def _do_softmax(self, node, input, dim=None, _stacklevel=3, dtype=None):
        if dim is None or not self._last_dim(input, dim):
            raise NotPlain("a softmax that is not over the last dim")
        return softmax(self._value(input))

    def _do_gelu(self, node, input, approximate="none"):
        return ("gelu", self._value(input), approximate)

    def _own_shape(self, node, input, shape):
        return len(shape) == 1 and shape[0] == self._meta(input).shape[-1]

    def _do_layer_norm(self, node, input, normalized_shape, weight=None, bias=None, eps=1e-5):
        if not self._own_shape(node, input, normalized_shape):
            raise NotPlain("a layer_norm over more than the last dim")
        x = self._value(input)
        y = mul(add(x, mul(-1.0, ("mean", x))), ("rsqrt", add(("var", x), float(eps))))
        y = y if weight is None else mul(y, self._value(weight))
        return y if bias is None else add(y, self._value(bias))

    def _do_rms_norm(self, node, input, normalized_shape, weight=None, eps=None):
        if not self._own_shape(node, input, normalized_shape):
            raise NotPlain("an rms_norm over more than the last dim")
        if eps is None:
            eps = torch.finfo(self._meta(input).dtype).eps
        x = self._value(input)
        y = mul(x, ("rsqrt", add(mean(mul(x, x)), float(eps))))
        return y if weight is None else mul(y, self._value(weight))

    # Halves of the last dim.
    def _do_chunk(self, node, input, chunks, dim=0):
        if chunks != 2 or not self._last_dim(input, dim) or self._meta(input).shape[-1] % 2:
            raise NotPlain("a chunk that is not into two halves of the last dim")
        x = self._value(input)
        return ("tuple", ("half", x, 0), ("half", x, 1))

    def _do_split(self, node, tensor, split_size_or_sections, dim=0):
        half = self._meta(tensor).shape[-1] / 2
        sizes = split_size_or_sections
        if sizes not in (half, [half, half], (half, half)) or not self._last_dim(tensor, dim):
            raise NotPlain("a split that is not into two halves of the last dim")
        return self._do_chunk(node, tensor, 2, dim)

    def _do_getitem(self, node, value, key):
        if isinstance(key, int) and self.trees[value][0] == "tuple":
            return self.trees[value][1 + key]
        if isinstance(key, tuple) and key and isinstance(key[-1], slice):
            whole = all(part is Ellipsis or part == slice(None) for part in key[:-1])
            width = self._meta(value).shape[-1]
            cut = key[-1].indices(width) if self._plain(key[-1]) else None
            covers = Ellipsis in key[:-1] or len(key) == len(self._meta(value).shape)
            for which, bounds in enumerate(((0, width // 2, 1), (width // 2, width, 1))):
                if whole and covers and cut == bounds and width % 2 == 0:
                    return ("half", self._value(value), which)
        raise NotPlain("an index that is not one half of the last dim")

    @staticmethod
    def _plain(part: slice) -> bool:
        return all(v is None or isinstance(v, int) for v in (part.start, part.stop, part.step))


_FUNCTIONS: dict[Any, str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "div",
    operator.neg: "neg",
    operator.pow: "pow",
    operator.getitem: "getitem",
    getattr: "getattr",
    functional.softmax: "softmax",
    functional.gelu: "gelu",
    functional.silu: "silu",
    functional.relu: "relu",
    functional.layer_norm: "layer_norm",
    functional.dropout: "dropout",
    torch.sigmoid: "sigmoid",
    functional.sigmoid: "sigmoid",
    torch.tanh: "tanh",
    functional.tanh: "tanh",
    torch.true_divide: "div",
    torch.special.erf: "erf",
}
for _name in ("add", "sub", "rsub", "mul", "div", "neg", "pow", "square", "sqrt", "rsqrt",
              "reciprocal", "exp", "erf", "mean", "sum", "var", "amax", "max", "softmax", "relu",
              "chunk", "split", "layer_norm"):
    _FUNCTIONS.setdefault(getattr(torch, _name), _name)
if hasattr(functional, "rms_norm"):
    _FUNCTIONS[functional.rms_norm] = "rms_norm"
    _FUNCTIONS[torch.rms_norm] = "rms_norm"
