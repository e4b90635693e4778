"""The Python blocks of the guides run as they are."""

import os
import pathlib
import re

import pytest

GUIDES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guides"
PRELUDE = """
import os
import opforge
from opforge import runtime
# The build tree has no pack of the package: the tests' own stands for it.
_path = os.environ["OPFORGE_TEST_PACK"]
_signer = opforge.pack.inspect(_path).signer
runtime.bundled_pack = lambda: (_path, _signer)
"""


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```", (GUIDES / name).read_text(), re.M | re.S)


def test_python(run_python):
    code = blocks("python.md")
    assert len(code) >= 5
    out = run_python(PRELUDE + "\n".join(code))
    assert "N is 1024 in x but 10 in y" in out and "the batch is not aligned" in out
    assert "1.0" in out.splitlines()  # coverage


def test_pytorch(run_python):
    pytest.importorskip("torch", reason="PyTorch is not installed in the test environment")
    code = blocks("pytorch.md")
    assert len(code) >= 4
    out = run_python(PRELUDE + "\n".join(code))
    assert "replaced 2: reduction.softmax" in out and "norm_rms_norm(Tensor x, Tensor w" in out
    assert os.environ["OPFORGE_TEST_PACK"]
