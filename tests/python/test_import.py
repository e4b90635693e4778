"""What `import opforge` may cost and may not do."""

import os
import subprocess
import sys


def test_import_is_quick_and_pulls_nothing(run_python):
    source = """
import sys, time
start = time.process_time()
import opforge
took = time.process_time() - start
assert not {"numpy", "torch", "json", "dataclasses"} & set(sys.modules)
print(took * 1e3)
"""
    # Time of the processor, and the best of a few: other programs run on this machine too.
    took = min(float(run_python(source)) for _ in range(5))
    assert took < 50, f"{took:.1f} ms"


def test_nothing_is_written_at_import(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PYTHONPATH": os.environ["PYTHONPATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", "import opforge; print(opforge.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0.1.0"
    assert list(home.iterdir()) == []


def test_version_of_the_package_is_that_of_the_library():
    import opforge

    assert opforge.__version__ == opforge.version()
