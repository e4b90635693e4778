"""Shared by the tests of the Python package. ctest sets the pack, its folders and PYTHONPATH."""

import os
import pathlib

import pytest

SKIPPED = 77  # what ctest takes as "skipped"


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    ran = reporter.stats.get("passed", []) + reporter.stats.get("failed", [])
    if exitstatus in (0, 5) and not ran and reporter.stats.get("skipped"):
        session.exitstatus = SKIPPED


@pytest.fixture(scope="session")
def pack():
    path = pathlib.Path(os.environ["OPFORGE_TEST_PACK"])
    assert path.exists(), "the ctest python.pack builds it"
    return path


@pytest.fixture(scope="session")
def context(pack):
    import opforge

    made = opforge.Context()
    opforge.load_pack(pack, context=made)
    return made


@pytest.fixture(scope="session")
def softmax(context):
    return context.operator("reduction.softmax")


@pytest.fixture(scope="session")
def rms_norm(context):
    return context.operator("norm.rms_norm")


@pytest.fixture(scope="session")
def scale(context):
    return context.operator("elementwise.scale")


@pytest.fixture
def run_python():
    """Runs a program in a fresh interpreter with the test's environment; gives its output."""
    import subprocess
    import sys

    def run(source, **environment):
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def torch_context(tmp_path_factory):
    """The operators that PyTorch tests use, built here: only where PyTorch is installed."""
    import opforge

    wanted = ["activation.gelu", "activation.silu_and_mul", "elementwise.scale",
              "norm.fused_add_rms_norm", "norm.layer_norm", "norm.rms_norm", "reduction.softmax"]
    path = tmp_path_factory.mktemp("pack") / "torch.ofpack"
    there = {row["name"] for row in opforge.inventory()["operators"]}
    wanted += [f"{name}_backward" for name in wanted if f"{name}_backward" in there]
    report = opforge.build(wanted, output=path, from_cases=True, dtype="f32", backend="cpu",
                           records=False)
    assert report.ok, report.text
    context = opforge.Context()
    opforge.load_pack(path, context=context)
    return context
