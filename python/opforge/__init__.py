"""opforge: proved, tuned, ahead-of-time compiled operators, launched from signed packs.

    import opforge
    opforge.load_pack()                          # the pack that the wheel carries
    softmax = opforge.operator("reduction.softmax")
    y = softmax(x)                               # NumPy, PyTorch, JAX, CuPy; y is of x's kind
    softmax(x, out=y)
    with softmax.prepare(x, out=y) as plan:      # the kernel is chosen once
        plan(x, out=y)

Importing this package imports neither NumPy nor PyTorch, asks no GPU and writes nothing.
"""

from . import errors
from ._core import Context, Operator, Plan
from .runtime import (
    coverage,
    default_context,
    develop,
    devices,
    events,
    fallback_counts,
    is_sealed,
    load_pack,
    metrics_text,
    operator,
    operators,
    reset_counts,
    seal,
    sealed_misses,
    set_backend,
    set_threads,
    trace,
    version,
)
from .values import Unavailable

__version__ = version()

# What needs the forge (compilers, records), JSON or a framework is imported when it is asked for.
_LATER = {
    "verify": "opforge.jobs",
    "tune": "opforge.jobs",
    "build": "opforge.jobs",
    "bench": "opforge.jobs",
    "inventory": "opforge.jobs",
    "doctor": "opforge.jobs",
    "optimize": "opforge.torch",
}
_MODULES = ("jobs", "pack", "program", "records", "torch", "workload")


def __getattr__(name):
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"opforge.{name}")
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'opforge' has no attribute '{name}'")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_LATER) | set(_MODULES))
