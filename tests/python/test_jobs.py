"""What the shell does, as functions."""

import os
import subprocess
import sys

import numpy as np
import pytest

import opforge
from opforge import errors


def test_verify():
    seen = []
    report = opforge.verify("elementwise.scale", backend="cpu", dtype="f32", progress=seen.append)
    assert report.ok and report.proved > 0 and report.failed == 0
    assert {row.outcome for row in report.entries} == {"proved"}
    assert all(row.op == "elementwise.scale" and row.worst_ulps <= 0.5 for row in report.entries)
    assert "proved" in report.text and seen


def test_build_and_use(tmp_path):
    path = tmp_path / "scale.ofpack"
    report = opforge.build(
        "elementwise.scale", output=path, shapes={"M": 4, "N": 64}, dtype="f32", backend="cpu",
        records=False,
    )
    assert report.ok and report.written and path.exists() and len(report.signer) == 64
    assert {row.outcome for row in report.rows} <= {"compiled", "loaded"}
    context = opforge.Context()
    opforge.load_pack(path, context=context)
    x = np.arange(256, dtype="f4").reshape(4, 64)
    assert np.array_equal(context.operator("elementwise.scale")(x, alpha=3.0), 3 * x)


def test_bench():
    shape = {"M": 4, "N": 64}
    bench = opforge.bench("elementwise.scale", shape=shape, dtype="f32", rounds=5, cache="warm")
    assert bench.rows and bench.copy_gb_per_s > 0 and not bench.errors
    assert all(row.median_us > 0 and row.dims == shape for row in bench.rows)


def test_pack_jobs(pack, tmp_path):
    report = opforge.pack.inspect(pack)
    assert [row.name for row in report.operators] == [
        "elementwise.scale", "norm.rms_norm", "reduction.softmax"]
    assert all(row.variants for row in report.operators)
    check = opforge.pack.verify(pack)
    assert check.signer == report.signer and check.blobs == report.blob_count
    assert opforge.pack.diff(pack, pack).same
    merged = tmp_path / "merged.ofpack"
    assert opforge.pack.merge([pack, pack], output=merged)["operators"] == 3
    files = opforge.pack.extract(pack, tmp_path / "code", operator="reduction.softmax")
    assert files and all(os.path.exists(file) for file in files)


def test_failures_have_their_classes(tmp_path):
    with pytest.raises(errors.NotFound, match="did you mean reduction.softmax"):
        opforge.verify("reduction.softmaxx")
    with pytest.raises(errors.InvalidArgument):
        opforge.build("elementwise.scale", output=tmp_path / "p")  # no shapes
    with pytest.raises(errors.InvalidArgument):
        opforge.verify("elementwise.scale", budget="endless")
    damaged = tmp_path / "damaged.ofpack"
    damaged.write_bytes(b"no pack")
    with pytest.raises(errors.Corrupt):
        opforge.pack.inspect(damaged)


def test_sealed_processes_start_no_job(run_python):
    out = run_python(
        """
import opforge
opforge.seal()
for job in (lambda: opforge.verify(), lambda: opforge.build(output="p"),
            lambda: opforge.tune("a.b", shape={}), lambda: opforge.bench()):
    try:
        job()
    except opforge.errors.CompilationSealed as error:
        print("sealed")
"""
    )
    assert out.split() == ["sealed"] * 4


def test_the_shell_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "opforge", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.strip() == "0.1.0"
    assert opforge.inventory()["operators"] and opforge.doctor()["devices"]
