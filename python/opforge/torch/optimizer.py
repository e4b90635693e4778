"""@optimize: a plain function, served by an operator where that is right and faster."""

from __future__ import annotations

import functools
import inspect
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import errors, runtime
from .autograd import to_autograd
from .face import NAMES, Face
from .formulas import NotPlain
from .patterns import Match
from .recogniser import recognise

ROUNDS = 15  # timed pairs


@dataclass(frozen=True)
class Decision:
    """What serves the calls of one signature, and why."""

    signature: str
    operator: str | None  # that the function was recognised as
    optimized: bool
    reason: str
    served_by: str = ""  # the variant
    speedup: float | None = None  # of the operator over the function, where both were timed


class _Keep(Exception):
    """The function itself serves; the text is the reason."""


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        stride = "" if value.is_contiguous() else f" strides {list(value.stride())}"
        return f"{NAMES.get(value.dtype, value.dtype)}{list(value.shape)}{stride} on {value.device}"
    return repr(value)


def _catalogue(context: Any) -> Callable[[str], bool]:
    """Which operators there are: those of the open packs, and those that can be built here."""
    names = set(context.operators())
    if not runtime.is_sealed():
        try:
            from ..jobs import inventory

            names |= {row["name"] for row in inventory()["operators"]}
        except errors.Error:
            pass  # an installation with the runtime alone
    return names.__contains__


def _draw_like(value: Any, seed: int) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    generator = torch.Generator(device=value.device).manual_seed(seed)
    fresh = torch.randn(value.shape, generator=generator, device=value.device)
    return torch.empty_like(value).copy_(fresh)


def _outputs(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def _error(outputs: tuple, truth: tuple) -> float:
    worst = 0.0
    for output, right in zip(outputs, truth, strict=True):
        if output.numel():
            worst = max(worst, float((output.double() - right.double()).abs().max()))
    return worst


def check_right(function: Any, instead: Any, arguments: dict[str, Any]) -> None:
    """Compares both with the function in double. Raises _Keep unless `instead` errs as little."""
    with torch.no_grad():
        own, other = _outputs(function(**arguments)), _outputs(instead(**arguments))
        if len(own) != len(other):
            raise _Keep(f"the operator gives {len(other)} outputs, the function {len(own)}")
        for a, b in zip(own, other, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype:
                raise _Keep(f"the operator gives {_text(b)}, the function {_text(a)}")
        try:
            truth = _outputs(function(**{k: _wide(v) for k, v in arguments.items()}))
        except Exception:  # a function that insists on its dtype
            truth = own
        scale = max((float(t.double().abs().max()) for t in truth if t.numel()), default=1.0)
        allowed = 2 * _error(own, truth) + 4 * torch.finfo(own[0].dtype).eps * scale
        found = _error(other, truth)
        if not found <= allowed:
            raise _Keep(f"the operator errs by {found:.3g}, at most {allowed:.3g} is allowed")


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def speedup_of(function: Any, instead: Any, arguments: dict[str, Any]) -> float:
    """The median ratio of interleaved pairs of runs."""
    with torch.no_grad():
        own, other = lambda: function(**arguments), lambda: instead(**arguments)
        for call in (own, other, own, other):
            _seconds(call)
        return statistics.median(_seconds(own) / _seconds(other) for _ in range(ROUNDS))


def adapt(op: Any, match: Match, context: Any) -> Any:
    """The operator as a function of the leaves that the match names, by keyword."""
    call = to_autograd(op, context=context)
    face = Face(op)

    def instead(**leaves: Any) -> Any:
        tensors = {name: leaves[leaf] for name, leaf in match.tensors.items()}
        for name in match.ones:
            x = tensors["x"]
            tensors[name] = torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)
        outputs = _outputs(call(**tensors, **match.attributes))
        return outputs[0] if match.outputs == 1 else outputs[: match.outputs]

    instead.face = face  # type: ignore[attr-defined]
    return instead


class _Shop:
    """Gets operators for shapes: from the open packs, else tuned and built here."""

    def __init__(self, context: Any, budget: int) -> None:
        self.context = context
        self.budget = budget
        self.folder: Any = None

    def operator(self, match: Match, tensors: dict[str, torch.Tensor]) -> tuple[Any, Any]:
        """(operator, its context)."""
        packed = match.op in self.context.operators()
        op = self.context.operator(match.op) if packed else None
        if op is not None and self._serves(op, match, tensors, exact=self.budget > 0):
            return op, self.context
        if self.budget > 0 and not runtime.is_sealed():
            return self._built(match, tensors)
        if op is not None and self._serves(op, match, tensors, exact=False):
            return op, self.context
        raise _Keep("the open packs do not serve it" + (
            " and the process is sealed" if runtime.is_sealed() else ", and the budget is 0"))

    @staticmethod
    def _serves(op: Any, match: Match, tensors: dict[str, torch.Tensor], exact: bool) -> bool:
        detached = {name: tensor.detach() for name, tensor in tensors.items()}
        try:
            found = op.explain(**detached, **match.attributes)
        except errors.Error:
            return False
        taken = found.taken
        if taken is None or taken.backend == "reference":
            return False
        return found.grade == "exact" or not exact

    def _built(self, match: Match, tensors: dict[str, torch.Tensor]) -> tuple[Any, Any]:
        from .. import jobs

        row = next(r for r in jobs.inventory()["operators"] if r["name"] == match.op)
        face = Face(_Declared(row))
        given = [tensors.get(name) for name in face.inputs]
        plain, _ = face.symbols(given)
        shape = {name: int(extent) for name, extent in plain.items()}
        dtypes = ",".join(sorted({f"{face.dtypes[name]}={NAMES[tensor.dtype]}"
                                  for name, tensor in tensors.items()}))
        device = next(iter(tensors.values())).device
        backend = "cuda" if device.type == "cuda" else "cpu"
        try:
            jobs.tune(match.op, shape=shape, dtype=dtypes, backend=backend, budget=self.budget,
                      attributes=match.attributes, prove=False)
        except errors.Error as error:
            raise _Keep(f"tuning failed: {error}") from error
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(prefix="opforge-optimize-")
        path = os.path.join(self.folder.name, f"{match.op}-{abs(hash((dtypes, *shape.items())))}")
        report = jobs.build(match.op, output=path + ".ofpack", shapes=shape, backend=backend,
                            dtype=NAMES[next(iter(tensors.values())).dtype])
        if not report.ok:
            raise _Keep("its kernels did not build: " + "; ".join(
                row.reason for row in report.rows if row.outcome == "failed"))
        context = runtime.Context()
        runtime.load_pack(path + ".ofpack", context=context)
        op = context.operator(match.op)
        if not self._serves(op, match, tensors, exact=False):
            raise _Keep("no kernel serves these tensors")
        return op, context


class _Declared:
    """A row of the inventory as an operator that Face can read."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.name = row["name"]

    def describe(self) -> dict[str, Any]:
        row = self.row
        kinds = {"bool": lambda v: str(int(v)), "int": str, "float": str, "text": str}
        return {
            "tensors": [(t["name"], tuple(t["dims"]), t["dtype"], t.get("access", "read"),
                         t.get("optional", False)) for t in row["tensors"]],
            "attributes": [(a["name"], a["type"],
                            None if a.get("default") is None else kinds[a["type"]](a["default"]))
                           for a in row["attributes"]],
            "dtypes": [",".join(f"{k}={v}" for k, v in combo.items())
                       for kernel in row["kernels"][:1] for combo in kernel["dtypes"]],
        }


class Optimized:
    """A function whose calls an operator serves where that is right and faster."""

    def __init__(self, function: Any, budget: int, least_speedup: float, context: Any) -> None:
        self.function = function
        self.budget = budget
        self.least_speedup = least_speedup
        self._context = context
        self._signature = inspect.signature(function)
        self._calls: dict[Any, Any] = {}
        self._decisions: dict[Any, Decision] = {}
        self._lock = threading.Lock()
        self._shop: _Shop | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = self._key(args, kwargs)
        try:
            call = self._calls[key]
        except KeyError:
            call = self._decide(key, args, kwargs)
        except TypeError:  # an argument that cannot be hashed
            call = None
        if call is None:
            return self.function(*args, **kwargs)
        return call(*args, **kwargs)

    @staticmethod
    def _key(args: tuple, kwargs: dict[str, Any]) -> tuple:
        def part(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return value.shape, value.stride(), value.dtype, value.device
            return type(value), value

        return (*map(part, args), *((name, part(value)) for name, value in kwargs.items()))

    def _decide(self, key: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        with self._lock:
            if key in self._calls:
                return self._calls[key]
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            text = ", ".join(f"{name}={_text(value)}" for name, value in arguments.items())
            match: list[Match] = []
            try:
                call, served_by, speedup = self._serve(arguments, match)
                decision = Decision(text, match[0].op, True, "right and faster", served_by, speedup)
            except (NotPlain, _Keep) as reason:
                call = None
                op = match[0].op if match else None
                prefix = "" if match else "not recognised: "
                decision = Decision(text, op, False, prefix + str(reason))
            self._decisions[key] = decision
            self._calls[key] = call
            return call

    def _serve(self, arguments: dict[str, Any], match: list[Match]) -> tuple[Any, str, float]:
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
               for p in self._signature.parameters.values()):
            raise NotPlain("a function of any number of arguments")
        context = self._context or runtime.default_context()
        if self._shop is None:
            self._shop = _Shop(context, self.budget)
        match.append(recognise(self.function, arguments, _catalogue(context)))
        leaves = match[0].tensors
        tensors = {name: arguments[leaf] for name, leaf in leaves.items()}
        for name in match[0].ones:
            tensors[name] = tensors["x"].new_ones(tensors["x"].shape[-1])
        op, of = self._shop.operator(match[0], tensors)
        try:
            instead = adapt(op, match[0], of)
        except errors.NotFound as error:
            raise _Keep(error.message) from error
        check_right(self.function, instead, arguments)
        for seed in (1, 2):
            fresh = {name: _draw_like(value, seed) for name, value in arguments.items()}
            check_right(self.function, instead, fresh)
        speedup = speedup_of(self.function, instead, arguments)
        if speedup < self.least_speedup:
            raise _Keep(f"not faster: {speedup:.3f} times as fast as the function, "
                        f"{self.least_speedup} is asked")
        detached = {name: tensor.detach() for name, tensor in tensors.items()}
        served_by = op.explain(**detached, **match[0].attributes).outcome
        bind = self._signature.bind

        def call(*args: Any, **kwargs: Any) -> Any:
            given = bind(*args, **kwargs)
            given.apply_defaults()
            return instead(**given.arguments)

        return call, served_by, speedup

    def explain(self) -> list[Decision]:
        """What serves each signature that was called so far, and why."""
        return list(self._decisions.values())


def optimize(
    function: Any = None, *, budget: int = 50, least_speedup: float = 1.03, context: Any = None
) -> Any:
    """Serves a plain function of PyTorch by an operator, where it is one.

    On the first call with a signature (shapes, strides, dtypes, devices, other arguments) the
    function is traced with torch.fx and recognised by its structure and constants. The operator is
    taken from the open packs where they have this very shape measured, else it is tuned (`budget`
    candidates; 0: never) and built, unless the process is sealed. It is used if it errs no more
    than the function, against the function in double, on the caller's own input and on fresh ones,
    and if it is `least_speedup` times as fast. Else the function serves; f.explain() says why.
    Gradients are those of to_autograd.
    """
    if function is None:
        return lambda f: Optimized(f, budget, least_speedup, context)
    return Optimized(function, budget, least_speedup, context)
