"""opforge.tune: candidates in workers of the program that the package carries."""

import opforge


def test_tune(tmp_path, monkeypatch):
    monkeypatch.setenv("OPFORGE_STATE_DIR", str(tmp_path))
    shape = {"M": 4, "N": 64}
    (report,) = opforge.tune(
        "elementwise.scale", shape=shape, dtype="f32", budget=1, seconds=20, prove=False
    )
    # On a busy machine a candidate may fail by time; it is in the report either way.
    assert report.tried <= 1 and report.stopped_by in ("candidates", "wall")
    assert report.context.startswith("elementwise.scale M=4,N=64")
    assert len(report.trials) == report.tried + 1  # the baseline too
    assert report.chosen == (report.choice is not None) and report.speedup > 0.5
