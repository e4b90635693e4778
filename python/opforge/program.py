"""Running the `opforge` program that the package carries.

Jobs that compile or run unproved code (verify, tune, build, bench) run in that program: what a
compiler or a candidate does there harms nothing here, a sealed process stays sealed, and a function
does exactly what the command of the same name does.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

from . import errors
from .runtime import is_sealed


def path() -> str:
    """Path of the program. Raises errors.NotFound in an installation without it."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "opforge")
    if not os.path.exists(program):
        raise errors.NotFound(
            f"the opforge program is not at {program}: this installation has the runtime alone"
        )
    return program


def refuse_when_sealed(job: str) -> None:
    """Raises errors.CompilationSealed in a sealed process."""
    if is_sealed():
        raise errors.CompilationSealed(
            f"{job}() compiles, and this process is sealed: run it in another process"
        )


def texts(values: str | Sequence[Any] | None) -> list[str]:
    """A text or a sequence of them as a list."""
    if values is None:
        return []
    return [values] if isinstance(values, (str, os.PathLike)) else [str(value) for value in values]


def option(name: str, value: Any) -> list[str]:
    """An option of the command line, or nothing for None, False, "" and empty sequences."""
    if value is None or value is False or value == "" or value == () or value == []:
        return []
    if value is True:
        return [name]
    return [name, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]


def pairs(values: dict[str, Any] | None) -> str:
    """{"M": 4, "eps": 1e-5} as M=4,eps=1e-05."""
    parts = []
    for name, value in (values or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        parts.append(f"{name}={text}")
    return ",".join(parts)


def _failure(lines: list[str], code: int) -> errors.Error:
    for line in reversed(lines):
        if line.startswith("{"):
            raw = json.loads(line)
            return errors.from_status(raw["status"], raw["message"])
    said = "\n".join(lines[-20:]) or "nothing"
    if code == 2:
        return errors.InvalidArgument(said)
    return errors.Error(f"opforge ended with {code}; it said: {said}")


def run(
    arguments: Sequence[str], progress: Callable[[str], None] | None = None
) -> tuple[Any, str, int]:
    """Runs a command; gives its JSON report, its text and its exit code (not 0: see the report).

    `progress` is called with each line of progress, from another thread. Raises what the command
    reports as an error. KeyboardInterrupt ends the command too, which keeps what is finished.
    """
    with tempfile.TemporaryDirectory(prefix="opforge-") as folder:
        report = os.path.join(folder, "report.json")
        quiet = [] if progress else ["--quiet"]
        child = subprocess.Popen(
            [path(), "--errors-json", *arguments, *quiet, f"--json={report}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        lines: list[str] = []
        assert child.stdout is not None and child.stderr is not None
        output, messages = child.stdout, child.stderr

        def read() -> None:
            for line in messages:
                lines.append(line.rstrip())
                if progress and not line.startswith("{"):
                    progress(line.rstrip())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            text = output.read()
            code = child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
        finally:
            reader.join()
            output.close()
            messages.close()
        # Exit 1 and 3 may come with a report: a kernel is wrong, nothing could be proved here.
        if not os.path.exists(report):
            raise _failure(lines, code)
        with open(report, encoding="utf-8") as file:
            return json.load(file), text, code
