"""The work of opforge.coverage()."""

from __future__ import annotations

from typing import Any

from .errors import Error
from .records import Candidate, Coverage, CoverageRow, Explanation, TraceRecord

# DLPack type code and bits.
_CODES = {
    "f64": (2, 64),
    "f32": (2, 32),
    "f16": (2, 16),
    "bf16": (4, 16),
    "i8": (0, 8),
    "i32": (0, 32),
    "i64": (0, 64),
    "u8": (1, 8),
    "u32": (1, 32),
    "u64": (1, 64),
    "bool": (6, 8),
    "f8e4m3": (10, 8),
    "f8e5m2": (12, 8),
}


def _records(trace: Any) -> list[TraceRecord]:
    if hasattr(trace, "records"):
        return trace.records
    with open(trace, encoding="utf-8") as file:
        return [TraceRecord.from_json(line) for line in file if line.strip()]


def _served(context: Any, record: TraceRecord) -> tuple[Candidate | None, str, str]:
    """The candidate that the context's packs have for the call, its grade, or why none."""
    by_name = {tensor["name"]: tensor for tensor in record.tensors}
    declared = [row[0] for row in context.operator(record.op).describe()["tensors"]]
    rows: list[tuple | None] = []
    for name in declared:
        tensor = by_name.get(name)
        if tensor is None:
            rows.append(None)
        else:
            code, bits = _CODES[tensor["dtype"]]
            rows.append((code, bits, tensor["dims"], tensor["strides"]))
    found = Explanation.from_json(
        context._explain_json(
            record.op, rows, record.device or "cpu:0", record.attributes, record.contract
        )
    )
    return found.taken, found.grade, found.outcome


def _row(context: Any, key: tuple, calls: list[TraceRecord], us: float) -> CoverageRow:
    record = calls[0]
    taken: Candidate | None = None
    grade, reason = "", ""
    try:
        taken, grade, outcome = _served(context, record)
        if taken is None:
            reason = outcome
        elif taken.backend == "reference":
            reason = "only the reference serves it"
    except Error as error:
        reason = error.message
    return CoverageRow(
        op=record.op,
        tensors=key[1],
        calls=len(calls),
        host_us=us,
        covered=not reason,
        served_by=taken.variant if taken is not None and not reason else "",
        grade=grade,
        reason=reason,
    )


def coverage_of(trace: Any, context: Any) -> Coverage:
    """Coverage of a trace by the packs of a context."""
    groups: dict[tuple, list[TraceRecord]] = {}
    for record in _records(trace):
        tensors = " ".join(
            f"{t['name']}:{t['dtype']}{t['dims']}{t['strides']}" for t in record.tensors
        )
        key = (record.op, tensors, record.contract, record.device, str(record.attributes))
        groups.setdefault(key, []).append(record)
    rows = []
    for key, calls in groups.items():
        rows.append(_row(context, key, calls, sum(record.host_us for record in calls)))
    rows.sort(key=lambda row: -row.host_us)
    total = sum(row.host_us for row in rows)
    covered = sum(row.host_us for row in rows if row.covered)
    return Coverage(covered / total if total else 0.0, covered, total, tuple(rows))
