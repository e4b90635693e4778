"""Dataclasses of what opforge reports. Imported when the first of them is needed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """A kernel that was looked at for a call."""

    source: str
    kernel: str
    variant: str
    backend: str
    target: str
    tier: str
    taken: bool
    reason: str  # why not; of the taken one, why
    median_us: float | None  # None: not measured


@dataclass(frozen=True)
class Explanation:
    """Why each candidate would or would not serve a call."""

    operator: str
    asked: str  # the contract
    outcome: str  # the chosen variant, or the error or reason
    grade: str  # "exact", "nearest", "default", "reference"; "" if nothing serves
    candidates: tuple[Candidate, ...]

    @staticmethod
    def from_json(text: str) -> Explanation:
        raw = json.loads(text)
        rows = tuple(Candidate(**row) for row in raw["candidates"])
        return Explanation(raw["op"], raw["asked"], raw["outcome"], raw["grade"], rows)

    @property
    def taken(self) -> Candidate | None:
        """The candidate that serves the call."""
        return next((row for row in self.candidates if row.taken), None)

    def __str__(self) -> str:
        lines = [f"{self.operator}, asked {self.asked}: {self.outcome} ({self.grade})"]
        for row in self.candidates:
            mark = "->" if row.taken else "  "
            lines.append(f"{mark} {row.kernel} {row.tier} {row.target}: {row.reason}")
        return "\n".join(lines)


@dataclass(frozen=True)
class FallbackCount:
    """How often a stricter kernel served calls because the asked tier is not offered."""

    op: str
    asked: str
    used: str
    count: int


@dataclass(frozen=True)
class EventCount:
    """How often something happened: "unavailable", "unproved", "reference", ..."""

    op: str
    name: str
    count: int


@dataclass(frozen=True)
class Device:
    """A device of this machine."""

    device: str  # "cpu:0", "cuda:1"
    model: str
    arch: int
    driver: int
    memory_bytes: int
    cores: int


@dataclass(frozen=True)
class TraceRecord:
    """One call, as it happened."""

    op: str
    outcome: str  # "ok", "unavailable" or the status of the error
    kernel: str
    variant: str
    backend: str
    tier: str
    contract: str
    grade: str
    message: str
    device: str
    host_us: float
    tensors: tuple[dict[str, Any], ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def from_json(line: str) -> TraceRecord:
        raw = json.loads(line)
        return TraceRecord(
            op=raw["op"],
            outcome=raw["outcome"],
            kernel=raw.get("kernel", ""),
            variant=raw.get("variant", ""),
            backend=raw.get("backend", ""),
            tier=raw.get("tier", ""),
            contract=raw.get("contract", ""),
            grade=raw.get("grade", ""),
            message=raw.get("message", ""),
            device=raw.get("device", ""),
            host_us=float(raw.get("host_us", 0)),
            tensors=tuple(raw.get("tensors", ())),
            attributes=dict(raw.get("attributes", {})),
        )


@dataclass(frozen=True)
class CoverageRow:
    """The calls of one operator and signature in a trace."""

    op: str
    tensors: str
    calls: int
    host_us: float
    covered: bool
    served_by: str  # the variant that the pack has for it, else ""
    grade: str
    reason: str  # why it is not covered, else ""


@dataclass(frozen=True)
class Coverage:
    """What share of a trace's time a pack covers with kernels (not with references)."""

    share: float  # of the traced time; 0 where nothing was traced
    covered_us: float
    total_us: float
    rows: tuple[CoverageRow, ...]  # the most time first
