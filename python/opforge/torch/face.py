"""An operator as PyTorch code needs it: functional, with shapes of outputs and with gradients."""

from __future__ import annotations

import ast
import operator as arithmetic
import re
from typing import Any

import torch

from .. import errors
from ..values import Unavailable
from . import references

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

_OPERATIONS = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.sub,
    ast.Mult: arithmetic.mul,
    ast.Div: arithmetic.floordiv,
    ast.FloorDiv: arithmetic.floordiv,
    ast.Mod: arithmetic.mod,
}


def _evaluate(text: str, symbols: dict[str, Any]) -> Any:
    """An integer expression of a declaration over symbols; symbolic integers stay symbolic."""

    def walk(node: ast.AST) -> Any:
        if isinstance(node, ast.Expression):
            return walk(node.body)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return symbols[node.id]
        if isinstance(node, ast.BinOp):
            return _OPERATIONS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            arguments = [walk(argument) for argument in node.args]
            if node.func.id == "ceil_div":
                return (arguments[0] + arguments[1] - 1) // arguments[1]
            if node.func.id in ("min", "max"):
                return {"min": min, "max": max}[node.func.id](*arguments)
        raise NotImplementedError(f"the dim {text} of a declaration")

    return walk(ast.parse(text, mode="eval"))


def _default(kind: str, text: str | None) -> Any:
    if text is None:
        return None
    return {"int": int, "float": float, "bool": lambda t: bool(int(t)), "text": str}[kind](text)


class Face:
    """The functional form of an operator: tensors in, new tensors out.

    Tensors that the operator changes in place are copied first, and their new values come out after
    what it writes: fused_add_rms_norm(x, residual, w) gives (y, new residual).
    """

    def __init__(self, op: Any, fallback: Any = None) -> None:
        about = op.describe()
        self.op = op
        self.name: str = op.name
        self.dims = {row[0]: row[1] for row in about["tensors"]}
        self.dtypes = {row[0]: row[2] for row in about["tensors"]}
        self.inputs = [row[0] for row in about["tensors"] if row[3] != "write"]
        self.optional = {row[0] for row in about["tensors"] if row[4]}
        self.written = [row[0] for row in about["tensors"] if row[3] == "write" and not row[4]]
        self.updated = [row[0] for row in about["tensors"] if row[3] == "update"]
        self.outputs = self.written + self.updated
        self.attributes = {
            row[0]: (row[1], _default(row[1], row[2])) for row in about["attributes"]
        }
        self.combinations = [
            dict(part.split("=") for part in row.split(",")) for row in about["dtypes"]
        ]
        self.fallback = fallback

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list, dict[str, Any]]:
        """Positional tensors and keywords as (tensors in declared order, attributes)."""
        if len(args) > len(self.inputs):
            raise errors.wrong_argument(
                self.name, "positional arguments", f"{len(self.inputs)} tensors", str(len(args))
            )
        tensors = list(args) + [None] * (len(self.inputs) - len(args))
        attributes = {}
        for name, value in kwargs.items():
            if name in self.attributes:
                attributes[name] = value
            elif name in self.inputs:
                if tensors[self.inputs.index(name)] is not None:
                    raise errors.wrong_argument(self.name, name, "one tensor", "two")
                tensors[self.inputs.index(name)] = value
            else:
                known = [*self.inputs, *self.attributes]
                raise errors.wrong_argument(self.name, name, " or ".join(known), "an unknown name")
        for name, tensor in zip(self.inputs, tensors, strict=True):
            if tensor is None and name not in self.optional:
                raise errors.wrong_argument(self.name, name, "a tensor", "nothing")
        return tensors, attributes

    def run(self, tensors: list, attributes: dict[str, Any]) -> tuple:
        """The outputs. Strides that no kernel serves are served by contiguous copies."""
        if not self.updated:
            answer = self.op(*tensors, **attributes)
            if type(answer) is torch.Tensor:
                return (answer,)
            if type(answer) is tuple:
                return answer
        else:
            answer = self._try(tensors, attributes)
        if isinstance(answer, Unavailable):
            dense = [tensor if tensor is None else tensor.contiguous() for tensor in tensors]
            if any(a is not b for a, b in zip(dense, tensors, strict=True)):
                answer = self._try(dense, attributes)
        if not isinstance(answer, Unavailable):
            return answer
        if self.fallback is None:
            answer.value()
        answer = self.fallback(*tensors, **attributes)
        return answer if isinstance(answer, tuple) else (answer,)

    def _try(self, tensors: list, attributes: dict[str, Any]) -> Any:
        given = dict(zip(self.inputs, tensors, strict=True))
        fresh = {name: given[name].clone() for name in self.updated}
        given.update(fresh)
        answer = self.op(**given, **attributes)
        if isinstance(answer, Unavailable):
            return answer
        if not self.written:
            return tuple(fresh.values())
        answer = answer if isinstance(answer, tuple) else (answer,)
        return answer + tuple(fresh.values())

    # --- Shapes without values ---

    def symbols(self, tensors: list) -> tuple[dict[str, Any], dict[str, tuple]]:
        """Extents of plain dims, and the leading dims behind "...M"."""
        plain: dict[str, Any] = {}
        leading: dict[str, tuple] = {}
        for name, tensor in zip(self.inputs, tensors, strict=True):
            if tensor is None:
                continue
            dims, shape = list(self.dims[name]), list(tensor.shape)
            if dims and dims[0].startswith("..."):
                fixed = len(dims) - 1
                cut = len(shape) - fixed
                product: Any = 1
                for extent in shape[:cut]:
                    product = product * extent
                leading.setdefault(dims[0][3:], tuple(shape[:cut]))
                plain.setdefault(dims[0][3:], product)
                dims, shape = dims[1:], shape[cut:]
            if len(dims) != len(shape):
                raise errors.wrong_argument(
                    self.name, name, f"dims {list(self.dims[name])}", str(list(tensor.shape))
                )
            for dim, extent in zip(dims, shape, strict=True):
                if dim.isidentifier():
                    plain.setdefault(dim, extent)
                elif scaled := re.fullmatch(r"(\d+) *\* *(\w+)", dim):
                    plain.setdefault(scaled[2], extent // int(scaled[1]))
        return plain, leading

    def _dtype(self, name: str, tensors: list) -> torch.dtype:
        variable = self.dtypes[name]
        if variable in DTYPES:
            return DTYPES[variable]
        known = {
            self.dtypes[given]: NAMES.get(tensor.dtype)
            for given, tensor in zip(self.inputs, tensors, strict=True)
            if tensor is not None
        }
        if variable in known:
            return DTYPES[known[variable]]
        for row in self.combinations:
            if all(row.get(key, value) == value for key, value in known.items()):
                return DTYPES[row[variable]]
        raise errors.wrong_argument(self.name, name, "a dtype that follows from the inputs", "none")

    def like(self, tensors: list) -> tuple:
        """Empty outputs of the right shapes and dtypes; tensors may be fake or symbolic."""
        plain, leading = self.symbols(tensors)
        model = next(tensor for tensor in tensors if tensor is not None)
        made = []
        for name in self.written:
            shape: list[Any] = []
            for dim in self.dims[name]:
                if dim.startswith("..."):
                    shape += leading[dim[3:]]
                else:
                    shape.append(_evaluate(dim, plain))
            made.append(model.new_empty(shape, dtype=self._dtype(name, tensors)))
        given = dict(zip(self.inputs, tensors, strict=True))
        return tuple(made) + tuple(torch.empty_like(given[name]) for name in self.updated)


class Gradient:
    """The vector-Jacobian product of an operator: by its own backward kernels, else by a reference.

    The backward operator is <name>_backward. It takes, by name, tensors of the forward call (x, w,
    y) and gradients of its outputs (dy), and gives gradients of its inputs (dx, dw).
    """

    def __init__(self, face: Face, backward: Any, reference: Any) -> None:
        self.face = face
        self.reference = reference or references.REFERENCES.get(face.name)
        self.kernel = None if backward is None else self._mapped(backward)
        if self.kernel is None and self.reference is None:
            raise errors.NotFound(
                f"{face.name} has no gradient: there is no operator {face.name}_backward in the "
                "open packs; give backward= an operator, or reference= a function of PyTorch",
                face.name,
            )

    def _mapped(self, backward: Any) -> Any:
        """The backward operator with what each of its tensors is, or None if it is another kind."""
        kernel = Face(backward)
        sources: dict[str, tuple[str, int]] = {}
        for name in kernel.inputs:
            # Of a tensor that the operator changes, the backward operator sees the new value.
            if name in self.face.outputs:
                sources[name] = ("output", self.face.outputs.index(name))
            elif name in self.face.inputs:
                sources[name] = ("input", self.face.inputs.index(name))
            else:
                of = _gradient_of(name, self.face.outputs)
                if of is None and len(self.face.outputs) == 1 and name in ("grad", "dout"):
                    of = self.face.outputs[0]
                if of is None:
                    return None
                sources[name] = ("gradient", self.face.outputs.index(of))
        targets = [_gradient_of(name, self.face.inputs) for name in kernel.outputs]
        if kernel.updated or None in targets:
            return None
        return kernel, sources, targets

    @property
    def needs_outputs(self) -> bool:
        """Whether the kernel reads outputs of the forward call."""
        return self.kernel is not None and any(
            kind == "output" for kind, _ in self.kernel[1].values()
        )

    def __call__(self, tensors, outputs, gradients, attributes, needed) -> list:
        """Gradients of the inputs that are `needed`, None for the others.

        gradients: of the outputs; None where nothing depends on one.
        """
        if self.kernel is not None:
            answer = self._by_kernel(tensors, outputs, gradients, attributes, needed)
            if answer is not None:
                return answer
        return self._by_reference(tensors, gradients, attributes, needed)

    def _by_kernel(self, tensors, outputs, gradients, attributes, needed):
        kernel, sources, targets = self.kernel
        same = references.SAME_GRADIENT.get(self.face.name, {})
        wanted = {same.get(self.face.inputs[i], self.face.inputs[i])
                  for i, need in enumerate(needed) if need}
        read = {index for kind, index in sources.values() if kind == "gradient"}
        ignored = [i for i, g in enumerate(gradients) if g is not None and i not in read]
        if not wanted <= set(targets) or ignored:
            return None
        parts = {"input": tensors, "output": outputs, "gradient": self._filled(tensors, gradients)}
        given = [parts[kind][index] for kind, index in (sources[name] for name in kernel.inputs)]
        keep = {name: value for name, value in attributes.items() if name in kernel.attributes}
        try:
            results = kernel.run(given, keep)
        except (errors.Unserved, errors.CompilationSealed, errors.ContractUnsatisfied):
            if self.reference is None:
                raise
            return None
        found = dict(zip(targets, results, strict=True))
        return [
            found[same.get(name, name)].to(tensor.dtype) if need else None
            for name, tensor, need in zip(self.face.inputs, tensors, needed, strict=True)
        ]

    def _filled(self, tensors, gradients) -> list:
        """Zeros for gradients that are None."""
        if all(gradient is not None for gradient in gradients):
            return list(gradients)
        like = self.face.like(tensors)
        return [
            torch.zeros_like(empty) if gradient is None else gradient
            for empty, gradient in zip(like, gradients, strict=True)
        ]

    def _by_reference(self, tensors, gradients, attributes, needed):
        if self.reference is None:
            raise errors.NotFound(
                f"{self.face.name}_backward does not give every gradient that is needed; give "
                "reference= a function of PyTorch", self.face.name)
        model = next(tensor for tensor in tensors if tensor is not None)
        with torch.enable_grad(), torch.autocast(model.device.type, enabled=False):
            leaves = [
                None if tensor is None else tensor.detach().requires_grad_(bool(need))
                for tensor, need in zip(tensors, needed, strict=True)
            ]
            defaults = {name: row[1] for name, row in self.face.attributes.items()}
            outputs = self.reference(*leaves, **{**defaults, **attributes})
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            wanted = [leaf for leaf, need in zip(leaves, needed, strict=True) if need]
            pairs = [
                (output, None if gradient is None else gradient.to(output.dtype))
                for output, gradient in zip(outputs, gradients, strict=True)
                if output.requires_grad and gradient is not None
            ]
            found = iter(
                torch.autograd.grad(
                    [pair[0] for pair in pairs], wanted, [pair[1] for pair in pairs],
                    allow_unused=True,
                )
            )
        results = []
        for tensor, need in zip(tensors, needed, strict=True):
            gradient = next(found) if need else None
            if need and gradient is None:
                gradient = torch.zeros_like(tensor)
            results.append(gradient)
        return results


def _gradient_of(name: str, names: list[str]) -> str | None:
    for each in names:
        if name in (f"d{each}", f"grad_{each}", f"{each}_grad", f"d_{each}"):
            return each
    return None


def backward_of(op: Any, context: Any) -> Any:
    """The operator <name>_backward of the open packs, or None."""
    name = f"{op.name}_backward"
    return context.operator(name) if name in context.operators() else None
