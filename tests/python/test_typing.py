"""Type stubs agree with the extension module, and the package with its own annotations."""

import os
import pathlib
import subprocess
import sys

import opforge

ROOT = pathlib.Path(opforge.__file__).resolve().parent


def run(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=cwd,
        env={**os.environ, "MYPYPATH": str(ROOT.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy(tmp_path):
    files = [str(ROOT / name) for name in ("jobs.py", "pack.py", "program.py", "records.py")]
    run("mypy", "--cache-dir", str(tmp_path / "cache"), "--ignore-missing-imports", *files,
        cwd=tmp_path)


def test_stubs_match_the_module(tmp_path):
    from opforge import _core

    # Of nanobind's functions stubtest knows nothing, and classes have nanobind's metaclass: methods
    # and properties are what it checks, and names are checked below.
    functions = [name for name in dir(_core) if type(getattr(_core, name)).__name__ == "nb_func"]
    allowed = tmp_path / "allowed"
    rows = [f"opforge._core.{name}" for name in [*functions, "Context", "Operator", "Plan"]]
    rows += [r"opforge\._core\.(Operator|Plan)\.__init__"]
    allowed.write_text("\n".join(rows) + "\n")
    run("mypy.stubtest", "--allowlist", str(allowed), "--ignore-unused-allowlist",
        "opforge._core", cwd=tmp_path)


def test_stubs_have_every_name():
    import ast

    from opforge import _core

    tree = ast.parse((ROOT / "_core.pyi").read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            signature = getattr(_core, node.name).__nb_signature__[0][0]
            assert all(f"{name}: " in signature for name in names), signature
    stubbed = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert stubbed == {name for name in dir(_core) if not name.startswith("__")}
