"""What a trace says production really calls: shapes to tune and to build for, heaviest first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import jobs
from .coverage_of import _records
from .records import TraceRecord


@dataclass(frozen=True)
class Load:
    """Calls of one operator with the same extents, dtype and attributes."""

    op: str
    dims: dict[str, int]
    dtype: str  # of the first tensor
    attributes: dict[str, Any] = field(default_factory=dict)
    calls: int = 0
    host_us: float = 0.0  # of all these calls


def _symbols(declared: Iterable[tuple], record: TraceRecord) -> dict[str, int]:
    """Extents of the symbols in the declared dims ("...M", "N", "2*N") of the traced tensors."""
    given = {tensor["name"]: list(tensor["dims"]) for tensor in record.tensors}
    found: dict[str, int] = {}
    for name, dims, *_ in declared:
        shape = given.get(name)
        if shape is None:
            continue
        names = list(dims)
        if names and names[0].startswith("..."):
            cut = len(shape) - len(names) + 1
            rows = 1
            for extent in shape[:cut]:
                rows *= extent
            found.setdefault(names[0][3:], rows)
            names, shape = names[1:], shape[cut:]
        for symbol, extent in zip(names, shape, strict=False):
            if symbol.isidentifier():
                found.setdefault(symbol, extent)
            elif scaled := re.fullmatch(r"(\d+) *\* *([A-Za-z_]\w*)", symbol):
                found.setdefault(scaled[2], extent // int(scaled[1]))
    return found


def loads(trace: Any, context: Any = None) -> list[Load]:
    """The distinct calls of a trace that were served, the longest total time first.

    trace: what opforge.trace() gave, or a file of such lines. context: knows the operators
    (default: the process's own).
    """
    from .runtime import default_context

    context = context or default_context()
    declared: dict[str, Any] = {}
    groups: dict[tuple, list[TraceRecord]] = {}
    for record in _records(trace):
        if record.outcome != "ok":
            continue
        if record.op not in declared:
            declared[record.op] = context.operator(record.op).describe()["tensors"]
        dims = _symbols(declared[record.op], record)
        key = (record.op, tuple(sorted(dims.items())), record.tensors[0]["dtype"],
               tuple(sorted(record.attributes.items())))
        groups.setdefault(key, []).append(record)
    rows = [
        Load(op, dict(dims), dtype, dict(attributes), len(calls), sum(c.host_us for c in calls))
        for (op, dims, dtype, attributes), calls in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.host_us)


def tune_trace(
    trace: Any, *, share: float = 0.9, most: int = 12, budget: int = 12, context: Any = None,
    **options: Any,
) -> list[jobs.TuneReport]:
    """Tunes the loads that make up `share` of the traced time, at most `most` of them.

    budget: candidates for each; options as of opforge.tune(). build() finds the choices.
    """
    rows = loads(trace, context)
    total = sum(row.host_us for row in rows)
    reports: list[jobs.TuneReport] = []
    seen = 0.0
    for row in rows[:most]:
        if seen >= share * total:
            break
        reports += jobs.tune(row.op, shape=row.dims, dtype=row.dtype, attributes=row.attributes,
                             budget=budget, **options)
        seen += row.host_us
    return reports


def build_trace(
    trace: Any, *, output: str | os.PathLike, context: Any = None, **options: Any
) -> list[jobs.BuildReport]:
    """Builds a pack for the calls of a trace; options as of opforge.build(). One report for each
    operator and dtype."""
    from . import pack

    rows = loads(trace, context)
    if not rows:
        raise ValueError("the trace has no served call, so there is nothing to build")
    reports = []
    for op, dtype in sorted({(row.op, row.dtype) for row in rows}):
        shapes = [row.dims for row in rows if (row.op, row.dtype) == (op, dtype)]
        part = f"{os.fspath(output)}.{len(reports)}"
        reports.append(jobs.build(op, output=part, shapes=shapes, dtype=dtype, **options))
    pack.merge([report.path for report in reports], output=output)
    for report in reports:
        os.unlink(report.path)
    return reports
