"""Plant each fault in a copy of the checkout, and run the tests that run its lines.

``python -m tests.faults [ID ...]`` plants them; the status is 1 when one is no longer found.
``python -m tests.faults record [PATH ...]`` runs test files, or all, to record which of their tests run
which fault: of each fault the test that found it, and the nearest others.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coverage import CoverageData

from tests.faults.planting import HERE, REPOSITORY, Fault, read_faults

RECORDED = HERE / "tests.json"
FOUND = HERE / "found.json"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
_TESTS_FAILED, _NOTHING_RUN = 1, 5
_LONGEST_S = 1800
_BATCH = 25
_NEAREST = 20


def main(args: list[str]) -> int:
    """Do what the arguments say."""
    if args[:1] == ["record"]:
        record(args[1:])
        return 0
    faults = read_faults()
    unknown = sorted(set(args) - {one.id for one in faults})
    if unknown:
        sys.exit(f"unknown faults: {', '.join(unknown)}")
    return plant([one for one in faults if not args or one.id in args])


def record(paths: list[str]) -> None:
    """Add the tests that run the lines of each fault to the recorded ones, one path at a time."""
    places = {fault.id: fault.planted(REPOSITORY) for fault in read_faults()}
    finders = _read(FOUND)
    for path in paths or sorted(map(str, (REPOSITORY / "tests").rglob("test_*.py"))):
        recorded = {one: tests for one, tests in _read(RECORDED).items() if one in places}
        with TemporaryDirectory() as folder:
            data_file = Path(folder) / "coverage"
            program = [sys.executable, "-m", "coverage", "run", f"--data-file={data_file}"]
            program += ["--source=covalt_git,server/covalt_server", "-m", "pytest", "-q"]
            argv = [*program, "-p", "tests.faults.contexts", path]
            done = subprocess.run(argv, cwd=REPOSITORY, check=False)
            if done.returncode not in {0, _TESTS_FAILED}:
                print(f"NOT RECORDED: {path} ended with {done.returncode}", flush=True)
                continue
            data = CoverageData(str(data_file))
            data.read()
            for fault_id, place in places.items():
                lines = data.contexts_by_lineno(str(place.file))
                found = {
                    test
                    for line in range(place.first_line, place.last_line + 1)
                    for test in lines.get(line, ())
                }
                functions = {test.partition("[")[0] for test in found} - {""}
                functions |= set(recorded.get(fault_id, ()))
                module = place.file.relative_to(REPOSITORY)
                recorded[fault_id] = nearest(functions, module, finders.get(fault_id))
        _write(RECORDED, recorded)
    for fault_id, tests in _read(RECORDED).items():
        print(f"{len(tests):6} tests run {fault_id}")


def plant(faults: list[Fault]) -> int:
    """Plant faults one after the other, print and keep by which tests they are found."""
    recorded, before = _read(RECORDED), _read(FOUND)
    now: dict[str, str | None] = {}
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        _copy(copy)
        known = _collected(copy)
        for fault in faults:
            last = (before.get(fault.id) or "").partition("[")[0]
            named = (last, *fault.tests, *recorded.get(fault.id, ()))
            # Those that were collected are named without the parameters of a row.
            ids = [test for test in named if test.partition("[")[0] in known]
            if not ids:
                print(f"no test is recorded for {fault.id}: python -m tests.faults record PATH")
            began = time.monotonic()
            now[fault.id] = _found_by(fault, copy, ids)
            took = time.monotonic() - began
            print(f"{took:6.0f} s  {fault.id}: {now[fault.id] or 'NOT FOUND'}", flush=True)
    _write(FOUND, before | now)
    lost = [fault_id for fault_id, test in now.items() if before.get(fault_id) and not test]
    print(f"found {sum(map(bool, now.values()))} of {len(now)}")
    for fault_id in lost:
        print(f"no longer found: {fault_id}; before by {before[fault_id]}")
    return int(bool(lost))


def nearest(tests: Iterable[str], module: Path, finder: str | None) -> list[str]:
    """Return the finder of a fault and the tests that are nearest to it and to the faulty module, sorted."""
    first, file = ((finder or "").partition(end)[0] for end in ("[", "::"))
    others = sorted(
        set(tests) - {first},
        key=lambda one: (one.partition("::")[0] != file, -_shared_words(one, module), one),
    )
    return sorted([*([first] if "::" in first else ()), *others[:_NEAREST]])


def _shared_words(test: str, module: Path) -> int:
    """Return how many folder and module names a test has in common with a module."""
    path = Path(test.partition("::")[0]).with_suffix("")
    words = {*path.parts[:-1], path.name.removeprefix("test_")}
    return len(words & set(module.with_suffix("").parts))


def _found_by(fault: Fault, copy: Path, ids: list[str]) -> str | None:
    """Return the first test that fails with the fault, and passes without it."""
    place = fault.planted(copy)
    sound = place.file.read_text(encoding="utf-8")
    # First the test that found it last, then the tests nearest to the module.
    module = place.file.relative_to(copy)
    waiting = ids[:1] + sorted(ids[1:], key=lambda one: -_shared_words(one, module))
    while waiting:
        # A few at a time: to collect all tests takes longer than to run the nearest ones.
        place.file.write_text(place.text, encoding="utf-8")
        try:
            failed = _first_failure(copy, waiting[:_BATCH])
        finally:
            place.file.write_text(sound, encoding="utf-8")
        if failed is None:
            waiting = waiting[_BATCH:]
            continue
        if _first_failure(copy, [failed]) is None:
            return failed
        names = (failed.partition("[")[0], failed.partition("::")[0])
        place_of = next((at for at, one in enumerate(waiting) if one in names), None)
        if place_of is None:
            return failed
        waiting = waiting[place_of + 1 :]  # it fails here anyway
    return None


def _collected(copy: Path) -> set[str]:
    """Return the files and functions of tests that exist: a recorded one may have been renamed since.

    Those of this package fail with any planted fault, because they look for the lines that it replaces.
    """
    collected = _pytest(copy, "--collect-only", "tests", "--ignore=tests/faults").stdout
    # Without the empty lines: an empty argument means all tests to pytest.
    ids = filter(None, collected.splitlines())
    functions = {one.partition("[")[0] for one in ids}
    return functions | {one.partition("::")[0] for one in functions}


def _pytest(copy: Path, *args: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(copy), str(copy / "server")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )


def _first_failure(copy: Path, ids: list[str]) -> str | None:
    """Run tests in a copy until one fails; return that one, or None."""
    chosen = copy / ".chosen-tests"
    chosen.write_text("".join(f"{one}\n" for one in ids), encoding="utf-8")
    try:
        done = _pytest(copy, "-x", f"@{chosen}")
    except subprocess.TimeoutExpired:
        return f"no end within {_LONGEST_S} s"
    if done.returncode == 0:
        return None
    failed = _FAILED.search(done.stdout)
    if failed is None or done.returncode == _NOTHING_RUN:
        sys.exit(f"the tests cannot run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[1]


def _copy(copy: Path) -> None:
    """Copy what Git would check in, as it is now."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0")[:-1]:
        if (REPOSITORY / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, copy / name, follow_symlinks=False)
    (copy / ".venv").symlink_to(Path(sys.prefix))


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def _write(file: Path, values: object) -> None:
    file.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
