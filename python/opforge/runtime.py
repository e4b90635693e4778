"""The process's default context, packs, traces and counters."""

import os

from . import _core
from ._core import Context

_HERE = os.path.dirname(os.path.abspath(__file__))
_default = None


def default_context():
    """The context that the functions of this module work on; made when it is first needed."""
    global _default
    if _default is None:
        _default = Context()
    return _default


def bundled_pack():
    """Path of the pack that this package carries, and of the key that signed it; None without."""
    pack = os.path.join(_HERE, "packs", "cpu.ofpack")
    return (pack, os.path.join(_HERE, "packs", "cpu.pub")) if os.path.exists(pack) else None


def load_pack(path=None, *, trusted_keys=(), only_named_keys=False, allow_unsigned=False,
              context=None):
    """Opens a pack for the operators of `context` (default: the process's own).

    path: a .ofpack file; None: the pack that the package carries, which needs no key.
    trusted_keys: keys beside those that the user trusts: 64 hex digits, or paths of key files.
    only_named_keys: trust those of `trusted_keys` alone.
    allow_unsigned: accept a pack without a signature; its code runs in this process.

    Packs that are opened first win ties. Raises errors.NotFound, Corrupt, Untrusted, Incompatible.
    """
    keys = [os.fspath(key) for key in trusted_keys]
    if path is None:
        bundled = bundled_pack()
        if bundled is None:
            raise errors_module().NotFound(
                "this build of opforge carries no pack: give load_pack() the path of one, or "
                "build one with opforge.build()"
            )
        path, key = bundled
        keys.append(key)
    (context or default_context())._load_pack(
        os.fspath(path), keys, only_named_keys, allow_unsigned
    )


def errors_module():
    from . import errors

    return errors


def operator(name):
    """The operator of that name, e.g. "norm.rms_norm", from the packs that are open.

    op(x, w) makes its outputs, of the same kind as the first tensor and on the same device;
    op(x, w, out=y) writes y. Attributes and outputs are given by name. Options: contract="FAST",
    "HIGH_PRECISION" or "DETERMINISTIC"; backend= (strict); proof="required" or "off"; stream= (an
    integer; default: the framework's current stream); precondition= (a function of the tensors
    that returns True, or a text that says why not). Raises errors.NotFound.
    """
    context = default_context()
    try:
        return context.operator(name)
    except errors_module().NotFound:
        if context.operators():
            raise
    raise errors_module().NotFound(
        f"unknown operator '{name}': no pack is open; call opforge.load_pack() first", name
    )


def operators():
    """Names of the operators of the open packs, sorted."""
    return default_context().operators()


def set_backend(name):
    """A backend for every call of this process, best effort; "" returns to the usual order.

    errors.NotFound lists the valid names. May be called at any time.
    """
    default_context().set_backend(name or "")


def seal():
    """From here on nothing compiles in this process; cannot be undone.

    A call that would need a compile raises errors.CompilationSealed.
    """
    _core.seal()


def is_sealed():
    """Whether seal() was called."""
    return _core.is_sealed()


def develop():
    """Development mode: references also serve tensors on devices, by copying them."""
    _core.develop()


def set_threads(threads):
    """Host threads that CPU kernels may use; below 1: OPFORGE_THREADS, else all cores."""
    _core.set_threads(threads)


def version():
    """Version of the library, e.g. "0.1.0"."""
    return _core.version()


def sealed_misses():
    """What would have needed a compile since the process was sealed: a list of texts."""
    import json

    return json.loads(_core.sealed_misses_json())


def devices():
    """Devices of this machine (records.Device); asks the drivers."""
    import json

    from .records import Device

    return [Device(**row) for row in json.loads(_core.devices_json())]


def fallback_counts():
    """Calls that a stricter kernel served, by operator and tiers (records.FallbackCount)."""
    import json

    from .records import FallbackCount

    return [FallbackCount(**row) for row in json.loads(_core.fallbacks_json())]


def events():
    """Counts of what happened, e.g. "unavailable", by operator (records.EventCount)."""
    import json

    from .records import EventCount

    return [EventCount(**row) for row in json.loads(_core.events_json())]


def metrics_text():
    """All counters in the OpenMetrics text format."""
    return _core.metrics_text()


def reset_counts():
    """Sets all counters to zero."""
    _core.metrics_reset()


class trace:
    """Records every call, failed ones too: `with opforge.trace() as t: ...; t.records`.

    Or t = opforge.trace(); t.start(); ...; t.stop(). At most `capacity` records are kept (0:
    65,536). There is one trace in a process: starting one clears what was recorded before.
    """

    def __init__(self, capacity=0):
        self.capacity = capacity
        self.lines = []  # one JSON object each, as `opforge run --trace` writes them
        self._records = None

    def start(self):
        """Starts recording."""
        _core.trace_start(self.capacity)
        return self

    def stop(self):
        """Stops recording and takes what was recorded."""
        _core.trace_stop()
        self.lines += _core.trace_take_json().splitlines()
        self._records = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()

    @property
    def records(self):
        """The calls, as records.TraceRecord."""
        if self._records is None:
            from .records import TraceRecord

            self._records = [TraceRecord.from_json(line) for line in self.lines]
        return self._records

    def save(self, path):
        """Writes the lines to a file, for `opforge trace show`."""
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in self.lines)


def coverage(trace, pack=None, *, trusted_keys=(), allow_unsigned=False):
    """What share of a trace's time a pack covers with kernels, not with references.

    trace: an opforge.trace, or the path of a file of its lines. pack: the path of a pack; None:
    the packs that are open. Returns records.Coverage.
    """
    from .coverage_of import coverage_of

    context = default_context()
    if pack is not None:
        context = Context()
        load_pack(pack, trusted_keys=trusted_keys, allow_unsigned=allow_unsigned, context=context)
    return coverage_of(trace, context)


def _in_child():
    # The worker threads of CPU kernels are the parent's: the child works without any.
    _core.set_threads(1)


os.register_at_fork(after_in_child=_in_child)
