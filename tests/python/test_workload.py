"""Shapes that a trace says were called (opforge.workload)."""

import numpy as np

import opforge
from opforge import workload


def test_loads_are_the_distinct_calls_heaviest_first(context):
    softmax, norm = context.operator("reduction.softmax"), context.operator("norm.rms_norm")
    rng = np.random.default_rng(3)
    with opforge.trace() as trace:
        for _ in range(3):
            softmax(rng.standard_normal((2, 5, 64), dtype=np.float32))
        norm(rng.standard_normal((4, 96), dtype=np.float32), np.ones(96, np.float32), eps=1e-5)
    rows = workload.loads(trace, context)
    assert [row.host_us for row in rows] == sorted((row.host_us for row in rows), reverse=True)
    by_op = {row.op: row for row in rows}
    assert len(rows) == len(by_op) == 2
    # ...M stands for all leading dims: 2 * 5 rows.
    assert by_op["reduction.softmax"].dims == {"M": 10, "N": 64}
    assert by_op["reduction.softmax"].calls == 3
    assert by_op["norm.rms_norm"].dims == {"M": 4, "N": 96}
    assert by_op["norm.rms_norm"].dtype == "f32"
    assert abs(by_op["norm.rms_norm"].attributes["eps"] - 1e-5) < 1e-12


def test_a_trace_of_failed_calls_asks_for_nothing(context):
    class Empty:
        records = []

    assert workload.loads(Empty(), context) == []
    try:
        workload.build_trace(Empty(), output="unused.ofpack", context=context)
    except ValueError as error:
        assert "no served call" in str(error)
    else:
        raise AssertionError("a pack of nothing was built")
