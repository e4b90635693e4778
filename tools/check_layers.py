#!/usr/bin/env python3
"""Architecture rules (features P2): layer order of includes, no operator named outside ops/, no backend outside backends/,
folders hold what they should, files are not too long. Prints each breach; exits 1 if there is one."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = ["base", "tensor", "contract", "operator", "target", "artifact", "runtime",
         "toolchain", "verify", "measure", "tune", "forge"]
RANK = {name: i for i, name in enumerate(ORDER)}
RUNTIME_TOP = RANK["runtime"]
CODE = {".cc", ".hpp", ".h", ".cu", ".cuh", ".cl", ".c"}
MAX_LINES = 600


def tracked():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in out.splitlines() if (ROOT / line).is_file()]


def names_under(folder, marker, depth):
    return sorted({p.parent.relative_to(ROOT / folder) for p in (ROOT / folder).glob("*/" * depth + marker)})


def main():
    problems = []
    files = tracked()
    ops = [str(p).replace("/", ".") for p in names_under("ops", "op.cmake", 2)]
    backends = [p.name for p in names_under("backends", "backend.cmake", 1)]
    op_word = re.compile(r"\b(" + "|".join(re.escape(o) for o in ops) + r")\b") if ops else None
    include = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
    for path in files:
        rel = path.relative_to(ROOT)
        parts = rel.parts
        if path.suffix not in CODE | {".py", ".cmake"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
        if len(lines) > MAX_LINES:
            problems.append(f"{rel}: {len(lines)} lines, more than {MAX_LINES}: split it by what it does")
        if parts[0] == "src" and path.suffix in CODE:
            layer = parts[1]
            if layer != "capi" and layer not in RANK:
                problems.append(f"{rel}: src/{layer} is no layer ({', '.join(ORDER)}, capi)")
                continue
            top = RUNTIME_TOP if layer == "capi" else RANK[layer]
            for number, line in enumerate(lines, 1):
                match = include.match(line)
                if not match:
                    continue
                head = match.group(1).split("/")[0]
                if head in RANK and RANK[head] > top:
                    problems.append(f"{rel}:{number}: {layer} must not include {match.group(1)} (a higher layer)")
                if head in ("backends", "ops", "cli", "tests"):
                    problems.append(f"{rel}:{number}: src must not include {match.group(1)}")
            if op_word:
                for number, line in enumerate(lines, 1):
                    code = line.split("//")[0]
                    if match := op_word.search(code):
                        problems.append(f"{rel}:{number}: names the operator {match.group(1)} outside its folder")
            for number, line in enumerate(lines, 1):
                code = line.split("//")[0]
                for name in backends:
                    if name != "reference" and re.search(rf'"{name}"', code) and layer != "tensor":
                        problems.append(f"{rel}:{number}: names the backend {name} outside its folder")
        if parts[0] == "backends" and op_word:
            for number, line in enumerate(lines, 1):
                if match := op_word.search(line.split("//")[0]):
                    problems.append(f"{rel}:{number}: names the operator {match.group(1)} outside its folder")
    for folder in names_under("ops", "op.cmake", 2):
        here = ROOT / "ops" / folder
        for needed in (f"{folder.name}.cc", "reference.cc", "README.md"):
            if not (here / needed).exists():
                problems.append(f"ops/{folder}: {needed} is missing")
        # Operators may share parts of their declarations in headers of a group's folder.
        text = "".join(p.read_text() for p in list(here.glob("*.cc")) + list(here.parent.glob("*.hpp")))
        text += "".join((ROOT / name).read_text() for name in re.findall(r'#include "(ops/[\w/]+\.hpp)"', text) if (ROOT / name).exists())
        for kernel in list(here.glob("*.cu")) + [p for p in [here / "cpu.cc"] if p.exists()]:
            if f'"{kernel.name}"' not in text:
                problems.append(f"ops/{folder}/{kernel.name}: no kernel of the declaration uses it (dead kernel)")
    for problem in problems:
        print(problem)
    print(f"layers: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
