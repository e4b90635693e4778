"""to_autograd: an operator as a function that PyTorch differentiates."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ..runtime import default_context
from .face import Face, Gradient, backward_of


def _function(face: Face, gradient: Gradient) -> Any:
    keep_outputs = gradient.needs_outputs

    class OperatorFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, attributes, *tensors):
            outputs = face.run(list(tensors), attributes)
            ctx.attributes = attributes
            # Changing a saved tensor before backward is an error, as for PyTorch's own functions.
            ctx.save_for_backward(*tensors, *(outputs if keep_outputs else ()))
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(
                *(output for output in outputs if not output.is_floating_point())
            )
            return outputs[0] if len(outputs) == 1 else outputs

        @staticmethod
        @once_differentiable
        def backward(ctx, *gradients):
            saved = ctx.saved_tensors
            count = len(face.inputs)
            tensors, outputs = list(saved[:count]), list(saved[count:])
            needed = ctx.needs_input_grad[1:]
            return (None, *gradient(tensors, outputs, gradients, ctx.attributes, needed))

    OperatorFunction.__name__ = face.name.rsplit(".", 1)[-1]
    return OperatorFunction


def to_autograd(
    op: Any, *, backward: Any = None, reference: Any = None, fallback: Any = None,
    context: Any = None,
) -> Any:
    """A function like op(...) whose outputs PyTorch differentiates once.

    backward: the operator of the gradients; default: <name>_backward of the open packs, if it is
    there. reference: a function of PyTorch with the operator's inputs and attributes, which is
    recomputed for gradients where no backward kernel serves; default: the one that opforge has for
    its own operators. fallback: called with the inputs where the forward call is Unavailable.

    Tensors may be given by name. An operator that changes tensors in place is made functional: they
    are copied, and their new values come out after the other outputs. Second derivatives and vmap
    are refused. Raises errors.NotFound when there is no gradient.
    """
    face = Face(op, fallback)
    context = context or default_context()
    gradient = Gradient(face, backward or backward_of(op, context), reference)
    function = _function(face, gradient)

    def call(*args, **kwargs):
        tensors, attributes = face.bind(args, kwargs)
        if torch.is_grad_enabled() and any(
            tensor is not None and tensor.requires_grad for tensor in tensors
        ):
            return function.apply(attributes, *tensors)
        outputs = face.run(tensors, attributes)
        return outputs[0] if len(outputs) == 1 else outputs

    call.__name__ = function.__name__
    call.__doc__ = f"{op.name} with gradients; see opforge.torch.to_autograd."
    call.operator = op
    return call
