#!/usr/bin/env python3
"""Writes backends/<dsl>/requirements.txt: packages pinned with the hashes of their wheels for every Python that is served.

    tools/pin_requirements.py triton triton==3.9.0
    tools/pin_requirements.py tilelang tilelang==0.1.15 apache-tvm-ffi==0.1.12 ...

Asks pip what it would install (nothing is downloaded but metadata). The lines above the first package of the file stay.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]


def wheel_hash(package, python):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--report", "-",
               "--target", "/nonexistent", "--only-binary=:all:", "--python-version", python, package]
    for platform in ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64",
                     "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux_2_12_x86_64"):
        command += ["--platform", platform]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{package}, Python {python}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    info = json.loads(done.stdout)["install"][0]["download_info"]["archive_info"]
    return info["hash"].replace("=", ":", 1)


def main():
    dsl, packages = sys.argv[1], sys.argv[2:]
    path = ROOT / "backends" / dsl / "requirements.txt"
    head = [line for line in path.read_text().splitlines() if line.startswith("#")] if path.exists() else []
    lines = head
    for package in packages:
        hashes = sorted({h for h in (wheel_hash(package, python) for python in PYTHONS) if h})
        lines.append(" ".join([package] + [f"--hash={h}" for h in hashes]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
