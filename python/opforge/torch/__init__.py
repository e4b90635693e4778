"""opforge in PyTorch: gradients and custom operators.

    rms_norm = opforge.torch.to_autograd(opforge.operator("norm.rms_norm"))     # trains
    rms_norm = opforge.torch.to_custom_op(opforge.operator("norm.rms_norm"))    # torch.compile
"""

from .autograd import to_autograd
from .custom_op import to_custom_op

__all__ = ["to_autograd", "to_custom_op"]
