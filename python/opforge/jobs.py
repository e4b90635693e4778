"""What the shell's commands do, as functions: verify, tune, build, bench, inventory.

Each runs in a process of its own (opforge.program) and returns a dataclass whose `text` is what the
command prints. Sources are those that the package carries; compiled code and tuning records are
kept in the user's folders (OPFORGE_CACHE_DIR, OPFORGE_STATE_DIR).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import program

Progress = Callable[[str], None]
Names = str | Sequence[str] | None
Shape = Mapping[str, int]


def _common(plugins: Names, trusted_keys: Sequence[str] = (), allow_unsigned: bool = False):
    arguments = []
    for plugin in program.texts(plugins):
        arguments += ["--plugin", plugin]
    for key in trusted_keys:
        arguments += ["--trust", os.fspath(key)]
    return arguments + program.option("--allow-unsigned", allow_unsigned)


def _list(name: str, values: Names) -> list[str]:
    return program.option(name, ",".join(program.texts(values)))


def _shapes(shapes: Shape | Sequence[Shape]) -> list[str]:
    rows = [shapes] if isinstance(shapes, Mapping) else list(shapes)
    return [part for row in rows for part in ("--shape", program.pairs(dict(row)))]


@dataclass(frozen=True)
class VerifyEntry:
    """One kernel, compiled for one target and dtypes, through the generic suites."""

    op: str
    kernel: str
    backend: str
    variant: str
    target: str
    dtypes: str
    device: str
    tier: str
    outcome: str  # "proved", "failed" or "not run"
    reason: str  # the first failure, or why it was not run
    report: dict[str, Any] = field(default_factory=dict, repr=False)  # every trial
    code_digest: str = ""

    @property
    def worst_ulps(self) -> float:
        """The largest error of all trials, in units in the last place of the output's dtype."""
        return float(self.report.get("worst_ulps", 0))


@dataclass(frozen=True)
class VerifyReport:
    """What verify() found. `ok`: something was proved and nothing failed."""

    proved: int
    failed: int
    not_run: int
    entries: tuple[VerifyEntry, ...]
    text: str = field(repr=False, default="")

    @property
    def ok(self) -> bool:
        return self.failed == 0 and self.proved > 0


def verify(
    operators: Names = None,
    *,
    backend: Names = None,
    tier: Names = None,
    dtype: str | None = None,
    device: str | None = None,
    pack: str | os.PathLike | None = None,
    attest: str | os.PathLike | None = None,
    budget: str = "quick",
    plugins: Names = None,
    trusted_keys: Sequence[str] = (),
    allow_unsigned: bool = False,
    progress: Progress | None = None,
) -> VerifyReport:
    """Proves kernels against the double reference: declared cases and hostile inputs.

    operators: names; None: all. pack: prove its artifacts instead of compiling. attest: write
    signed attestations to this file. budget: "quick" or "full".
    """
    program.refuse_when_sealed("verify")
    raw, text, _ = program.run(
        [
            "verify",
            *program.texts(operators),
            *_list("--backend", backend),
            *_list("--tier", tier),
            *program.option("--dtype", dtype),
            *program.option("--device", device),
            *program.option("--pack", pack),
            *program.option("--attest", attest),
            *program.option("--budget", budget),
            *_common(plugins, trusted_keys, allow_unsigned),
        ],
        progress,
    )
    entries = tuple(VerifyEntry(**row) for row in raw.get("entries") or ())
    return VerifyReport(raw["proved"], raw["failed"], raw["not_run"], entries, text)


@dataclass(frozen=True)
class Choice:
    """The variant that a tune adopted, or kept."""

    variant: str
    median_us: float
    baseline_us: float
    ratio_p80: float  # of the variant's time to the baseline's: 80 % of paired rounds are below
    noise: float
    margin: float
    space: int


@dataclass(frozen=True)
class TuneReport:
    """One case of an operator. `chosen`: a variant was measured and is on record."""

    context: str
    chosen: bool
    adopted: bool  # the choice is another than the default
    why: str
    choice: Choice | None
    tried: int
    failed: int
    known: int
    compiled: int
    wall_s: float
    device_s: float
    stopped_by: str
    from_records: bool
    warnings: tuple[str, ...]
    trials: tuple[dict[str, Any], ...] = field(repr=False, default=())

    @property
    def speedup(self) -> float:
        """Time of the default variant over the chosen one's; 1 where nothing was chosen."""
        if self.choice is None or self.choice.median_us <= 0:
            return 1.0
        return self.choice.baseline_us / self.choice.median_us


def tune(
    operators: str | Sequence[str],
    *,
    shape: Shape | Sequence[Shape],
    dtype: str | None = None,
    backend: Names = "cpu",
    device: str | None = None,
    contract: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    budget: int = 40,
    rounds: int = 1,
    seconds: float | None = None,
    device_seconds: float | None = None,
    search: str = "auto",
    seed: int = 0,
    cache: str = "cold",
    time_limit_s: float = 30,
    again: bool = False,
    prove: bool = True,
    plugins: Names = None,
    progress: Progress | None = None,
) -> list[TuneReport]:
    """Tries candidates in worker processes; adopts what is right and surely faster.

    budget: candidates for each case and round; seconds, device_seconds: limits for each case.
    rounds: how often to go on, with another seed, from what earlier rounds have on record; the
    reports are those of the last round. Choices are kept in the tuning records, where build()
    finds them. One report for each operator, shape and combination of dtypes.
    """
    program.refuse_when_sealed("tune")
    reports: list[TuneReport] = []
    for turn in range(rounds):
        raw, _, _ = program.run(
            [
                "tune",
                *program.texts(operators),
                *_shapes(shape),
                *program.option("--dtype", dtype),
                *_list("--backend", backend),
                *program.option("--device", device),
                *program.option("--contract", contract),
                *program.option("--attr", program.pairs(dict(attributes or {}))),
                *program.option("--budget", budget * (turn + 1)),
                *program.option("--seconds", seconds),
                *program.option("--device-seconds", device_seconds),
                *program.option("--search", search),
                *program.option("--seed", seed + turn or None),
                *program.option("--cache", cache),
                *program.option("--time-limit", time_limit_s),
                *program.option("--again", again or turn > 0),
                *program.option("--no-prove", not prove),
                *_common(plugins),
            ],
            progress,
        )
        reports = [_tune_report(row) for row in raw]
    return reports


def _tune_report(raw: dict[str, Any]) -> TuneReport:
    raw = dict(raw)
    choice = raw.pop("choice", None)
    raw["warnings"] = tuple(raw["warnings"])
    raw["trials"] = tuple(raw.get("trials") or ())
    return TuneReport(choice=Choice(**choice) if choice else None, **raw)


@dataclass(frozen=True)
class BuildRow:
    """One artifact of a build."""

    op: str
    kernel: str
    variant: str
    target: str
    outcome: str  # "compiled", "loaded", "skipped" or "failed"
    reason: str
    seconds: float


@dataclass(frozen=True)
class BuildReport:
    """A build. The pack is written unless something failed."""

    written: bool
    path: str
    compiled: int
    loaded: int
    skipped: int
    failed: int
    attested: int
    proofs_failed: int
    table_entries: int  # of tuned shapes
    signer: str  # public key; "": unsigned
    file_bytes: int
    root_digest: str
    rows: tuple[BuildRow, ...] = field(repr=False, default=())
    text: str = field(repr=False, default="")

    @property
    def ok(self) -> bool:
        return self.written and self.failed == 0 and self.proofs_failed == 0


def build(
    operators: Names = None,
    *,
    output: str | os.PathLike,
    from_cases: bool = False,
    shapes: Shape | Sequence[Shape] = (),
    dtype: Names = None,
    backend: Names = None,
    target: Names = "native",
    tier: Names = None,
    jobs: int | None = None,
    max_variants: int | None = None,
    strict: bool = False,
    signed: bool = True,
    attest: bool = True,
    records: bool = True,
    plugins: Names = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Compiles ahead of time into one pack, signed with the user's key.

    from_cases: the shapes that the operators declare for building; shapes: others. target: names
    such as "x86-64-v3", "sm_90a"; "native": what the devices here run best. records: take tuning
    winners from the records. strict: a skipped artifact is a failure.
    """
    program.refuse_when_sealed("build")
    raw, text, _ = program.run(
        [
            "build",
            *program.texts(operators),
            *program.option("--from-cases", from_cases),
            *_shapes(shapes),
            *_list("--dtype", dtype),
            *_list("--backend", backend),
            *_list("--target", target),
            *_list("--tier", tier),
            *program.option("--jobs", jobs),
            *program.option("--max-variants", max_variants),
            *program.option("--strict", strict),
            *program.option("--unsigned", not signed),
            *program.option("--no-attest", not attest),
            *program.option("--no-records", not records),
            "--output",
            os.fspath(output),
            *_common(plugins),
        ],
        progress,
    )
    names = ("written", "compiled", "loaded", "skipped", "failed", "attested", "proofs_failed",
             "table_entries")
    return BuildReport(
        **{name: raw[name] for name in names},
        path=os.fspath(output),
        signer=raw["pack"]["signer"],
        file_bytes=raw["pack"]["file_bytes"],
        root_digest=raw["pack"]["root_digest"],
        rows=tuple(BuildRow(**row) for row in raw["rows"]),
        text=text,
    )


@dataclass(frozen=True)
class BenchRow:
    """One kernel at one shape. Times are of one run, in microseconds."""

    op: str
    case: str
    dims: dict[str, int]
    attributes: dict[str, Any]
    dtypes: str
    kernel: str
    backend: str
    tier: str
    variant: str
    target: str
    median_us: float
    p20_us: float
    p80_us: float
    rounds: int
    gb_per_s: float
    gflop_per_s: float
    share_of_copy: float  # of the copy ceiling measured in the same run
    rejected: str  # why the row does not count ("" if it does): e.g. its output was wrong
    floor_us: float


@dataclass(frozen=True)
class BenchReport:
    """Timings of one run on one device."""

    date: str
    device: str
    cache: str  # "cold" or "warm"
    copy_gb_per_s: float
    rows: tuple[BenchRow, ...]
    errors: tuple[str, ...]
    text: str = field(repr=False, default="")


def bench(
    operators: Names = None,
    *,
    shape: Shape | Sequence[Shape] = (),
    case: Names = None,
    dtype: str | None = None,
    backend: str = "cpu",
    device: str | None = None,
    tier: Names = None,
    attributes: Mapping[str, Any] | None = None,
    pack: str | os.PathLike | None = None,
    allow_unsigned: bool = False,
    cache: str = "cold",
    rounds: int = 21,
    plugins: Names = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Times kernels beside the copy ceiling of the same run; rows of wrong code are rejected.

    shape, case: what to time; neither: the declared bench cases. pack: what this pack would run,
    instead of compiling.
    """
    program.refuse_when_sealed("bench")
    cases = [part for name in program.texts(case) for part in ("--case", name)]
    raw, text, _ = program.run(
        [
            "bench",
            *program.texts(operators),
            *_shapes(shape),
            *cases,
            *program.option("--dtype", dtype),
            *program.option("--backend", backend),
            *program.option("--device", device),
            *_list("--tier", tier),
            *program.option("--attr", program.pairs(dict(attributes or {}))),
            *program.option("--pack", pack),
            *program.option("--allow-unsigned", allow_unsigned),
            *program.option("--cache", cache),
            *program.option("--rounds", rounds),
            *_common(plugins),
        ],
        progress,
    )
    fields = BenchRow.__dataclass_fields__
    good = [row for row in raw["rows"] if "error" not in row]
    return BenchReport(
        date=raw["date"],
        device=raw["device"],
        cache=raw["cache"],
        copy_gb_per_s=raw["copy_ceiling"]["gb_per_s"],
        rows=tuple(BenchRow(**{name: row[name] for name in fields}) for row in good),
        errors=tuple(row["error"] for row in raw["rows"] if "error" in row),
        text=text,
    )


def inventory(plugins: Names = None) -> dict[str, Any]:
    """Operators x backends x tiers x dtypes of the sources, as `opforge ops --json` gives them."""
    return program.run(["ops", *_common(plugins)])[0]


def doctor() -> dict[str, Any]:
    """What this machine can do, what is missing and how to get it."""
    return program.run(["doctor"])[0]
