#!/usr/bin/env python3
"""Reads ctest's JUnit files: lists the slowest, failed and skipped tests, the latter with their reasons, and ends with one line of counts.

A skip without a reason is a failure, and so is a file that is missing (its run did not end)."""
import pathlib
import re
import sys
import xml.etree.ElementTree as ET

GTEST_SKIP = re.compile(r": Skipped\n(.*?)\n\s*(?:\n|\[  SKIPPED)", re.DOTALL)
PYTEST_SKIP = re.compile(r"^SKIPPED \[\d+\] (.*)$", re.MULTILINE)
SCRIPT_SKIP = re.compile(r"^skipped: (.*)$", re.MULTILINE)


def reasons(output: str) -> list[str]:
    """What a test printed of why it, or a part of it, was skipped."""
    return [" ".join(found.split()) for kind in (GTEST_SKIP, PYTEST_SKIP, SCRIPT_SKIP) for found in kind.findall(output)]


def main() -> int:
    passed, failed, skipped, bad = 0, [], [], 0
    times: list[tuple[float, str]] = []
    for path in map(pathlib.Path, sys.argv[1:]):
        if not path.is_file():
            print(f"{path} was not written: its run did not end")
            bad += 1
            continue
        for case in ET.parse(path).getroot().iter("testcase"):
            if case.get("status") == "disabled":
                continue  # the child half of another test
            name = case.get("name").split("  # GetParam")[0]
            why = reasons(case.findtext("system-out") or "")
            times.append((float(case.get("time") or 0), name))
            if case.get("status") == "fail" or case.find("failure") is not None:
                failed.append(name)
            elif case.get("status") == "notrun" or case.find("skipped") is not None:
                skipped.append((name, "; ".join(why)))
                bad += not why
            else:
                passed += 1
                skipped += [(name, each) for each in why]
    print("slowest: " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(times, reverse=True)[:8]))
    for name in failed:
        print(f"failed: {name}")
    for name, why in skipped:
        print(f"skipped: {name}: {why or 'WITHOUT A REASON'}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or bad or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
