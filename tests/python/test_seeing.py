"""Traces, counters, coverage, explanations."""

import json

import numpy as np
import pytest

import opforge


@pytest.fixture
def x():
    return np.ones((4, 8), "f4")


def test_explain(softmax, x):
    found = softmax.explain(x, contract="FAST")
    assert found.operator == "reduction.softmax" and found.asked == "FAST"
    assert found.taken is not None and found.taken.backend == "cpu"
    assert found.taken.variant == found.outcome
    assert all(row.reason for row in found.candidates)
    assert "->" in str(found)
    with softmax.prepare(x, contract="FAST") as plan:
        assert plan.describe()["variant"] == found.taken.variant


def test_describe(rms_norm):
    about = rms_norm.describe()
    assert [row[0] for row in about["tensors"]] == ["x", "w", "y"]
    assert {row[0]: row[2] for row in about["attributes"]}.keys() == {"eps", "zero_centered"}
    assert about["formula"] and about["default_contract"] in ("FAST", "HIGH_PRECISION")
    assert rms_norm.name == "norm.rms_norm" and "norm.rms_norm(x, w" in repr(rms_norm)


def test_trace(softmax, x, tmp_path):
    with opforge.trace() as trace:
        softmax(x)
        softmax(x, precondition=lambda a, b: "no")
        with pytest.raises(opforge.errors.InvalidArgument):
            softmax(x, out=np.empty((4, 7), "f4"))
    softmax(x)  # not traced
    assert [record.outcome for record in trace.records] == ["ok", "invalid_argument"]
    first = trace.records[0]
    assert first.op == "reduction.softmax" and first.backend == "cpu" and first.host_us > 0
    assert [t["dims"] for t in first.tensors] == [[4, 8], [4, 8]]
    trace.save(tmp_path / "t.jsonl")
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert [json.loads(line)["op"] for line in lines] == ["reduction.softmax"] * 2


def test_trace_on_and_off(softmax, x):
    trace = opforge.trace(capacity=2).start()
    for _ in range(5):
        softmax(x)
    trace.stop()
    assert len(trace.records) == 2


def test_counts(run_python):
    out = run_python(
        """
import os, numpy as np, opforge
opforge.load_pack(os.environ["OPFORGE_TEST_PACK"])
softmax = opforge.operator("reduction.softmax")
for _ in range(3):
    softmax(np.ones((2, 8), "f4"), contract="HIGH_PRECISION")
print([(c.op, c.asked, c.used, c.count) for c in opforge.fallback_counts()])
assert "opforge" in opforge.metrics_text()
opforge.reset_counts()
print(opforge.fallback_counts())
"""
    )
    assert out.splitlines() == [
        "[('reduction.softmax', 'HIGH_PRECISION', 'DETERMINISTIC', 3)]",
        "[]",
    ]


def test_coverage(softmax, rms_norm, scale, x, pack, tmp_path):
    with opforge.trace() as trace:
        softmax(x)
        rms_norm(x, np.ones(8, "f4"), eps=1e-5)
        scale(x, alpha=3.0)
    all_of_it = opforge.coverage(trace, pack)
    assert all_of_it.share == 1 and len(all_of_it.rows) == 3
    assert all(row.covered and row.served_by for row in all_of_it.rows)
    # The same calls of a dtype that the pack does not have.
    foreign = tmp_path / "foreign.jsonl"
    lines = [line.replace('"f32"', '"f16"') if "scale" in line else line for line in trace.lines]
    foreign.write_text("\n".join(lines))
    part = opforge.coverage(foreign, pack)
    missing = [row for row in part.rows if not row.covered]
    assert [row.op for row in missing] == ["elementwise.scale"] and missing[0].reason
    assert part.share == pytest.approx(1 - missing[0].host_us / part.total_us)


def test_devices():
    assert opforge.devices()[0].device == "cpu:0"
