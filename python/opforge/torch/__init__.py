"""opforge in PyTorch: gradients, custom operators, and serving plain functions and modules.

    rms_norm = opforge.torch.to_autograd(opforge.operator("norm.rms_norm"))     # trains
    rms_norm = opforge.torch.to_custom_op(opforge.operator("norm.rms_norm"))    # torch.compile
    @opforge.torch.optimize(budget=50)                                          # a plain function
    report = opforge.torch.substitute(model)                                    # a model's modules
"""

from .autograd import to_autograd
from .custom_op import to_custom_op
from .optimizer import Decision, optimize
from .modules import Substitution, substitute

__all__ = [
    "Decision",
    "Substitution",
    "optimize",
    "substitute",
    "to_autograd",
    "to_custom_op",
]
