"""The C functions of libopforge for Python; use the package opforge."""

from types import TracebackType
from typing import Any

from .records import Explanation
from .values import Unavailable

class Context:
    """Packs, the forced backend and the choices made so far."""

    def __init__(self, backend: str | None = None) -> None: ...
    def _load_pack(
        self, path: str, trusted_keys: list[str], only_named_keys: bool, allow_unsigned: bool
    ) -> None: ...
    def _explain_json(
        self,
        arg0: str,
        arg1: list[tuple[int, int, list[int], list[int]] | None],
        arg2: str,
        arg3: dict[str, Any],
        arg4: str,
        /,
    ) -> str: ...
    def operators(self) -> list[str]:
        """Names of the operators in the packs, sorted."""

    def operator(self, name: str) -> Operator:
        """The operator of that name. errors.NotFound offers the nearest ones."""

    def set_backend(self, name: str) -> None:
        """A backend for every call, best effort; '' returns to the operators' own order."""

    def choices_digest(self) -> str:
        """64 hex digits over every choice made so far, whatever the order of the calls."""

class Operator:
    """An operator of a pack; op(x, w, out=y) calls it."""

    @property
    def name(self) -> str: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator: tensors by position or name, the rest by name.

        Gives the outputs (one tensor, or a tuple), or opforge.Unavailable. Raises exceptions of
        opforge.errors.
        """

    def describe(self) -> dict[str, Any]:
        """Formula, tensors, attributes, dtypes, default contract."""

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why each candidate would or would not serve this call; runs nothing."""

    def prepare(self, *args: Any, **kwargs: Any) -> Plan | Unavailable:
        """A Plan for tensors of these shapes, strides, dtypes and device, or Unavailable."""

class Plan:
    """A prepared call: plan(x, w, out=y). A context manager."""

    @property
    def closed(self) -> bool: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it on tensors of the prepared shapes, strides, dtypes and device."""

    def describe(self) -> dict[str, Any]:
        """Kernel, variant, backend, tier, grade and why."""

    def close(self) -> None:
        """Frees it; later calls raise errors.PlanClosed."""

    def __enter__(self) -> Plan: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

def version() -> str: ...
def abi_version() -> int: ...
def seal() -> None: ...
def is_sealed() -> bool: ...
def develop() -> None: ...
def set_threads(threads: int) -> None: ...
def sealed_misses_json() -> str: ...
def devices_json() -> str: ...
def fallbacks_json() -> str: ...
def events_json() -> str: ...
def metrics_text() -> str: ...
def metrics_reset() -> None: ...
def trace_start(capacity: int = 0) -> None: ...
def trace_stop() -> None: ...
def trace_take_json() -> str: ...
