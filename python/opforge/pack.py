"""Work with pack files: inspect, verify, attest, sign, merge, diff, extract. None runs code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import program

Path = str | os.PathLike


def _run(command: str, arguments: Sequence[Any], keys: Sequence[str], unsigned: bool):
    trust = [part for key in keys for part in ("--trust", os.fspath(key))]
    return program.run(
        [
            "pack",
            command,
            *(os.fspath(argument) for argument in arguments),
            *trust,
            *program.option("--allow-unsigned", unsigned),
        ]
    )


@dataclass(frozen=True)
class PackOperator:
    """What a pack holds of one operator."""

    name: str
    formula: str
    default_contract: str
    backends: tuple[str, ...]
    targets: tuple[str, ...]
    tiers: tuple[str, ...]
    dtypes: tuple[str, ...]
    measured_on: tuple[str, ...]
    table_entries: int
    code_bytes: int
    variants: tuple[dict[str, Any], ...] = field(repr=False)


@dataclass(frozen=True)
class PackReport:
    """What a pack holds."""

    path: str
    signer: str  # public key; "": unsigned
    file_bytes: int
    blob_count: int
    operators: tuple[PackOperator, ...]
    attestations: tuple[dict[str, Any], ...]
    text: str = field(repr=False, default="")


@dataclass(frozen=True)
class PackCheck:
    """Counts of what was checked."""

    sections: int
    blobs: int
    attestations: int
    signer: str


@dataclass(frozen=True)
class PackDiff:
    """Lines "- group.op: variant", "+ ...", "~ ...: what differs"."""

    same: bool
    lines: tuple[str, ...]


def inspect(path: Path) -> PackReport:
    """Looks into any intact pack, also one whose signer is unknown here: nothing of it is run."""
    raw, text, _ = _run("inspect", [path], (), False)
    rows = []
    for row in raw["operators"]:
        lists = ("backends", "targets", "tiers", "dtypes", "measured_on", "variants")
        plain = ("name", "formula", "default_contract", "table_entries", "code_bytes")
        values: dict[str, Any] = {name: row[name] for name in plain}
        values.update({name: tuple(row[name]) for name in lists})
        rows.append(PackOperator(**values))
    return PackReport(
        os.fspath(path),
        raw["signer"],
        raw["file_bytes"],
        raw["blob_count"],
        tuple(rows),
        tuple(raw["attestations"]),
        text,
    )


def verify(path: Path, *, trusted_keys: Sequence[str] = (), allow_unsigned=False) -> PackCheck:
    """Opens it as a process with this trust would and checks every byte. Raises errors.Corrupt,
    Untrusted."""
    return PackCheck(**_run("verify", [path], trusted_keys, allow_unsigned)[0])


def attest(
    path: Path, attestations: Sequence[Path], *, output: Path | None = None,
    trusted_keys: Sequence[str] = (),
) -> int:
    """Merges attestation files of trusted keys into a pack; gives how many were new."""
    arguments = [path, *attestations, "--output", output or path]
    return _run("attest", arguments, trusted_keys, False)[0]["added"]


def sign(
    path: Path, *, output: Path | None = None, trusted_keys: Sequence[str] = (),
    allow_unsigned=False,
) -> str:
    """Signs a pack with the user's own key, and gives that key."""
    arguments = [path, "--output", output or path]
    return _run("sign", arguments, trusted_keys, allow_unsigned)[0]["signer"]


def merge(
    paths: Sequence[Path], *, output: Path, take_first=False, trusted_keys: Sequence[str] = ()
) -> dict[str, int]:
    """Merges packs into one. take_first: of the same variant with different code, instead of an
    error."""
    flags = program.option("--take-first", take_first)
    return _run("merge", [*paths, "--output", output, *flags], trusted_keys, False)[0]


def diff(a: Path, b: Path, *, trusted_keys: Sequence[str] = ()) -> PackDiff:
    """What differs between two packs."""
    raw = _run("diff", [a, b], trusted_keys, False)[0]
    return PackDiff(raw["same"], tuple(raw["lines"]))


def extract(
    path: Path, folder: Path, *, operator: str = "", target: str = "",
    trusted_keys: Sequence[str] = (),
) -> list[str]:
    """Writes the code of a pack as files, each with its manifest; gives the files of code."""
    filters = [*program.option("--op", operator), *program.option("--target", target)]
    return _run("extract", [path, "--output", folder, *filters], trusted_keys, False)[0]
