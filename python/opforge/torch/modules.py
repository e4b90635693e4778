"""substitute: the modules of a model that are operators, served by them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .. import errors, runtime
from .autograd import to_autograd
from .formulas import NotPlain
from .patterns import Match
from .recogniser import recognise


@dataclass
class Substitution:
    """What substitute() did: paths of modules."""

    replaced: dict[str, str] = field(default_factory=dict)  # path -> operator
    left: dict[str, str] = field(default_factory=dict)  # path -> why not
    served: dict[str, int] = field(default_factory=dict)  # path -> calls served by the operator
    fell_back: dict[str, str] = field(default_factory=dict)  # path -> why the last call was not

    def __str__(self) -> str:
        lines = [f"replaced {path}: {op}" for path, op in self.replaced.items()]
        return "\n".join(lines + [f"left {path}: {why}" for path, why in self.left.items()])


def _layer_norm(module: nn.LayerNorm) -> Match:
    if len(module.normalized_shape) != 1:
        raise NotPlain("it normalises more than the last dim")
    if module.weight is None:
        return Match("norm.layer_norm", {"x": "0"}, {"eps": module.eps}, 1, ("w",))
    tensors = {"x": "0", "w": "weight"}
    if module.bias is not None:
        tensors["b"] = "bias"
    return Match("norm.layer_norm", tensors, {"eps": module.eps}, 1, ())


def _rms_norm(module: Any) -> Match:
    if len(module.normalized_shape) != 1:
        raise NotPlain("it normalises more than the last dim")
    if module.eps is None:
        raise NotPlain("its epsilon depends on the dtype")
    ones = ("w",) if module.weight is None else ()
    tensors = {"x": "0"} if ones else {"x": "0", "w": "weight"}
    return Match("norm.rms_norm", tensors, {"eps": module.eps}, 1, ones)


def _gelu(module: nn.GELU) -> Match:
    form = "tanh" if module.approximate == "tanh" else "erf"
    return Match("activation.gelu", {"x": "0"}, {"form": form}, 1, ())


def _softmax(module: nn.Softmax) -> Match:
    if module.dim != -1:
        raise NotPlain(f"its dim is {module.dim}, and only the last one (-1) is served")
    return Match("reduction.softmax", {"x": "0"}, {}, 1, ())


_KNOWN: list[tuple[type, Any]] = [
    (nn.LayerNorm, _layer_norm),
    (nn.GELU, _gelu),
    (nn.Softmax, _softmax),
    (nn.ReLU, lambda module: Match("activation.relu", {"x": "0"}, {}, 1, ())),
]
if hasattr(nn, "RMSNorm"):
    _KNOWN.append((nn.RMSNorm, _rms_norm))


class _Served:
    """What a substituted module calls. Copied models share it."""

    def __init__(self, path, match, call, forward, report) -> None:
        self.path, self.match, self.call = path, match, call
        self.forward, self.report = forward, report

    def __deepcopy__(self, memo):
        return self

    def __call__(self, module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        tensors = {}
        for name, leaf in self.match.tensors.items():
            tensors[name] = x if leaf == "0" else _attribute(module, leaf)
        for name in self.match.ones:
            tensors[name] = x.new_ones(x.shape[-1])
        try:
            answer = self.call(**tensors, **self.match.attributes)
        except errors.Error as error:
            self.report.fell_back[self.path] = str(error)
            return self.forward(module, x)
        self.report.served[self.path] = self.report.served.get(self.path, 0) + 1
        return answer


def _attribute(module: nn.Module, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _by_formula(module: nn.Module, width: int, available: Any) -> Match:
    """The operator that the forward function of a module of somebody else's is."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    if len(parameters) != 1:
        raise NotPlain("it takes more than one argument")
    weights = dict(module.named_parameters())
    model = next(iter(weights.values()), torch.empty(0))
    x = torch.randn(3, width, dtype=model.dtype, device=model.device)
    found = recognise(module, {parameters[0].name: x}, available)
    names = {name.replace(".", "_"): name for name in weights}
    tensors = {}
    for name, leaf in found.tensors.items():
        tensors[name] = "0" if leaf == parameters[0].name else names.get(leaf, "")
        if not tensors[name]:
            raise NotPlain(f"{leaf} is no parameter of it")
    return Match(found.op, tensors, found.attributes, found.outputs, found.ones)


def _width(module: nn.Module) -> int:
    shapes = {tuple(p.shape) for p in module.parameters(recurse=False)}
    return next(iter(shapes))[0] if len(shapes) == 1 and len(next(iter(shapes))) == 1 else 16


def _match(module: nn.Module, available: Any) -> Match:
    for kind, make in _KNOWN:
        if type(module) is kind:
            return make(module)
    if type(module).__module__.startswith("torch."):
        raise NotPlain(f"there is no operator for {type(module).__name__}")
    if any(True for _ in module.children()):
        raise NotPlain("it has modules of its own, which are looked at one by one")
    return _by_formula(module, _width(module), available)


def substitute(
    model: nn.Module, pack: Any = None, *, trusted_keys: Any = (), allow_unsigned: bool = False,
    context: Any = None,
) -> Substitution:
    """Serves modules of a model by operators of a pack (None: the packs that are open).

    Recognised are LayerNorm, RMSNorm, GELU, Softmax and ReLU of torch.nn, and modules without
    submodules of other libraries by their formula. Parameters, names, hooks and state_dict stay as
    they are. A call that the pack does not serve is served by the module's own code, and counted in
    the report. Returns what was replaced, and what not and why.
    """
    if pack is not None:
        context = runtime.Context()
        runtime.load_pack(pack, trusted_keys=trusted_keys, allow_unsigned=allow_unsigned,
                          context=context)
    context = context or runtime.default_context()
    available = set(context.operators()).__contains__
    report = Substitution()
    calls: dict[str, Any] = {}
    for path, module in model.named_modules():
        try:
            match = _match(module, available)
            if not available(match.op):
                raise NotPlain(f"the pack has no {match.op}")
            if match.op not in calls:
                calls[match.op] = to_autograd(context.operator(match.op), context=context)
            _replace(module, path, match, calls[match.op], report)
            report.replaced[path] = match.op
        except (NotPlain, errors.NotFound) as reason:
            report.left[path or "(the model)"] = str(reason)
    return report


def _replace(module: nn.Module, path: str, match: Match, call: Any, report: Substitution) -> None:
    kind = type(module)
    served = _Served(path, match, call, kind.forward, report)

    # A class of its own: isinstance, state_dict, hooks and deep copies work as before.
    def forward(self, x):
        return served(self, x)

    module.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": __name__})
