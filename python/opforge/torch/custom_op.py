"""to_custom_op: an operator registered with PyTorch, for torch.compile, torch.export and graphs."""

from __future__ import annotations

from typing import Any

import torch

from .. import errors
from ..runtime import default_context
from .face import Face, Gradient, backward_of

_TYPES = {"int": "int", "float": "float", "bool": "bool", "text": "str"}
_libraries: dict[str, Any] = {}
_made: dict[str, Any] = {}


def _text(kind: str, value: Any) -> str:
    if kind == "text":
        return f'"{value}"'
    return repr(float(value)) if kind == "float" else str(value)


def _attributes(face: Face) -> str:
    parts = []
    for name, (kind, default) in face.attributes.items():
        parts.append(f"{_TYPES[kind]} {name}" + ("" if default is None else
                                                 f"={_text(kind, default)}"))
    return ", ".join(parts)


def _inputs(face: Face) -> list[str]:
    return [f"Tensor{'?' if name in face.optional else ''} {name}" for name in face.inputs]


def _schema(face: Face, name: str) -> str:
    inputs = ", ".join(_inputs(face))
    attributes = _attributes(face)
    many = ", ".join(["Tensor"] * len(face.outputs))
    result = "Tensor" if len(face.outputs) == 1 else f"({many})"
    return f"{name}({inputs}{', *, ' + attributes if attributes else ''}) -> {result}"


def _one(values: tuple) -> Any:
    return values[0] if len(values) == 1 else values


def _no_alias(outputs: tuple, tensors: list) -> tuple:
    """Outputs that are no input: what a fallback gives may be one, and a schema says it is not."""
    return tuple(
        output.clone() if any(output is tensor for tensor in tensors) else output
        for output in outputs
    )


def _define_gradient(library: Any, space: str, name: str, face: Face, gradient: Gradient) -> Any:
    """<name>_vjp: gradients of all floating inputs, as an operator that tracing sees as one."""
    outputs = len(face.outputs)
    extra = [f"Tensor y{i}" for i in range(outputs)] if gradient.needs_outputs else []
    grads = [f"Tensor? g{i}" for i in range(outputs)]
    attributes = _attributes(face)
    result = f"({', '.join(['Tensor'] * len(face.inputs))})" if len(face.inputs) > 1 else "Tensor"
    arguments = ", ".join([*_inputs(face), *extra, *grads, "bool[] needed"])
    library.define(
        f"{name}_vjp({arguments}{', *, ' + attributes if attributes else ''}) -> {result}"
    )
    count = len(face.inputs)

    def split(args):
        tensors = list(args[:count])
        saved = list(args[count : count + len(extra)])
        return tensors, saved, list(args[count + len(extra) : -1]), list(args[-1])

    def run(*args, **attributes):
        tensors, saved, given, needed = split(args)
        found = gradient(tensors, saved, given, attributes, needed)
        # One tensor for each input, as the schema says; those not needed are empty.
        return _one(
            tuple(tensors[0].new_empty(0) if each is None else each.contiguous() for each in found)
        )

    def fake(*args, **attributes):
        tensors, _, _, needed = split(args)
        made = []
        for tensor, need in zip(tensors, needed, strict=True):
            if need:
                made.append(torch.empty_like(tensor, memory_format=torch.contiguous_format))
            else:
                made.append(tensors[0].new_empty(0))
        return _one(tuple(made))

    library.impl(f"{name}_vjp", run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{space}::{name}_vjp", fake, lib=library)
    return getattr(getattr(torch.ops, space), f"{name}_vjp").default


def _register_gradient(library: Any, space: str, name: str, face: Face, gradient: Gradient) -> None:
    vjp = _define_gradient(library, space, name, face, gradient)
    count = len(face.inputs)

    def keep(ctx, inputs, attributes, output):
        outputs = output if isinstance(output, tuple) else (output,)
        extra = outputs if gradient.needs_outputs else ()
        ctx.save_for_backward(*inputs, *extra)
        ctx.attributes = attributes

    # PyTorch gives keyword-only inputs to the function only where the schema has some.
    def setup(ctx, inputs, output):
        keep(ctx, inputs, {}, output)

    def setup_with_attributes(ctx, inputs, keyword_only_inputs, output):
        keep(ctx, inputs, keyword_only_inputs, output)

    def backward(ctx, *grads):
        saved = ctx.saved_tensors
        tensors = list(saved[:count])
        needed = [bool(need) for need in ctx.needs_input_grad[:count]]
        found = vjp(*tensors, *saved[count:], *grads, needed, **ctx.attributes)
        found = found if isinstance(found, (tuple, list)) else (found,)
        return tuple(each if need else None for each, need in zip(found, needed, strict=True))

    torch.library.register_autograd(
        f"{space}::{name}", backward, lib=library,
        setup_context=setup_with_attributes if face.attributes else setup,
    )


def to_custom_op(
    op: Any, *, namespace: str = "opforge", name: str | None = None, backward: Any = None,
    reference: Any = None, fallback: Any = None, context: Any = None,
) -> Any:
    """Registers an operator with PyTorch, as torch.ops.<namespace>.<group>_<op>, and gives it.

    With schema, defaults, fake implementation, and gradients where the operator has a backward
    operator or a reference (see to_autograd). It is functional: tensors that the operator changes
    in place are copied, and their new values come out after the other outputs. fallback: called
    with the inputs where the call is Unavailable; default: the error errors.Unserved.
    """
    face = Face(op, fallback)
    name = name or op.name.replace(".", "_")
    key = f"{namespace}::{name}"
    if key in _made:
        registered, of, with_fallback = _made[key]
        if of == op.name and with_fallback is fallback and backward is None and reference is None:
            return registered
        raise errors.InvalidArgument(
            f"{key} is registered already; give name= another one", op.name
        )
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    library = _libraries[namespace]
    library.define(_schema(face, name))

    whole = not face.updated and len(face.outputs) == 1

    def run(*args, **attributes):
        if whole:
            answer = op(*args, **attributes)
            if type(answer) is torch.Tensor:
                return answer
        tensors = list(args) + [None] * (len(face.inputs) - len(args))
        return _one(_no_alias(face.run(tensors, attributes), tensors))

    def fake(*args, **attributes):
        return _one(face.like(list(args) + [None] * (len(face.inputs) - len(args))))

    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(key, fake, lib=library)
    try:
        gradient = Gradient(face, backward or backward_of(op, context or default_context()),
                            reference)
    except errors.NotFound:
        gradient = None
    if gradient is not None:
        _register_gradient(library, namespace, name, face, gradient)
    registered = getattr(getattr(torch.ops, namespace), name).default
    _made[key] = (registered, op.name, fallback)
    return registered
