#!/usr/bin/env python3
"""Every text mutant of ops/*/*/mutants.json still finds its text (white space aside), so that a changed kernel cannot disarm one."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def text_of(operator: pathlib.Path, row: dict) -> str:
    """The file that a row changes: of the operator's folder, else a helper header of a backend; empty when there is none."""
    places = [operator / row["file"], *ROOT.glob(f"backends/{row.get('backend', '*')}/include/{row['file']}")]
    return next((place.read_text() for place in places if place.is_file()), "")


def main() -> int:
    lost = []
    for path in sorted(ROOT.glob("ops/*/*/mutants.json")):
        for row in json.loads(path.read_text()):
            if "".join(row["find"].split()) not in "".join(text_of(path.parent, row).split()):
                lost.append(f"{path.relative_to(ROOT)}: {row['fault']}: {row['file']} has no text '{row['find']}'")
    print("\n".join(lost))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
