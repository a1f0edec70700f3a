"""The table .ci/long.md: when each part of .ci/long last passed, and at which commit."""
import pathlib
import subprocess

TABLE = ".ci/long.md"
HEAD = """\
# When each part of `.ci/long` last passed
Written by `.ci/long`. Minutes on two cores.

| part | minutes | commit | date |
|---|---|---|---|
"""


def read_records(root):
    """{part: {minutes, commit, date}}; parts that never passed are absent."""
    path = pathlib.Path(root, TABLE)
    records = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] not in ("part", "---"):
            records[cells[0]] = {"minutes": float(cells[1]), "commit": cells[2], "date": cells[3]}
    return records


def write_records(root, records, order):
    rows = [f"| {name} | {records[name]['minutes']:.1f} | {records[name]['commit']} | {records[name]['date']} |\n"
            for name in order if name in records]
    pathlib.Path(root, TABLE).write_text(HEAD + "".join(rows))


def changed_files(root, base):
    """Paths that differ between the commit `base` and the working tree; None where that commit is not known here."""
    if not base:
        return None
    listed = subprocess.run(["git", "diff", "--name-only", "-z", base], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        return None
    new = subprocess.run(["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    return [path for path in (listed.stdout + new.stdout).split("\0") if path]
