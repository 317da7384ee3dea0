"""The rows that users feel, of all benchmarks, in about ten minutes; those that miss what they must reach are printed last.

    python -m bench [--fastmcp PYTHON] [--only PART] [--json]

Each benchmark compares in its own run, and its rows are ratios or, for pages, milliseconds.  ``PYTHON`` is an
interpreter that has fastmcp; without it, the rows of the MCP server are left out.  ``--only`` names a part of the name of
a benchmark.  It exits with 1 if a row misses.  Run it on a machine that does nothing else, before each release.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import server_pages, start_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent


class Felt(NamedTuple):
    """A row: its figure, what it must reach, and whether it does."""

    row: str
    figure: float
    must: float
    unit: str
    reached: bool


class Benchmark(NamedTuple):
    """A module of this package, its arguments, and how its JSON is read."""

    module: str
    arguments: tuple[str, ...]
    read: Callable[[Any], Iterator[Felt]]


def _at_most(row: str, figure: float, must: float, unit: str = "x") -> Felt:
    return Felt(row, round(figure, 3), must, unit, figure <= must)


def _gateway(rows: dict[str, list[float]]) -> Iterator[Felt]:
    for name, (ours, *others) in rows.items():
        yield _at_most(name, ours / sum(others), 1.1)


def _tool_calls(rows: list[dict[str, Any]]) -> Iterator[Felt]:
    for row in rows:
        if "skipped" not in row:
            yield Felt(row["row"], row["figure"], row["must"], row["unit"], row["reached"])


def _start_up(found: dict[str, Any]) -> Iterator[Felt]:
    for name, must in start_up.MUST.items():
        yield _at_most(f"cold {name}", found["ms"][name] / found["ms"]["import pydantic"], must)


def _index_sync(rows: dict[str, dict[str, float]]) -> Iterator[Felt]:
    for name, must in (("no-op", 1.4), ("one change", 1.1)):
        yield _at_most(f"index, {name}", rows[name]["ratio"], must)


def _server_pages(found: dict[str, Any]) -> Iterator[Felt]:
    for name, took in found["pages_ms"].items():
        yield _at_most(f"page {name}", took, server_pages.LIMIT_MS, "ms")
    p95 = found["conversation"]["p95_ms"]
    yield _at_most("conversation, 95 % of pages", p95, server_pages.LIMIT_MS, "ms")


def _sources(found: dict[str, Any]) -> Iterator[Felt]:
    for row in found["rows"]:
        yield _at_most(f"document to lock, {row['row']}", row["figure"], row["must"])
    wrong = sum(line["ours"] == "wrong" for line in found["requests"])
    yield _at_most("wrong requests of a document", wrong, 0, "of 16")


def _policy(rows: list[dict[str, Any]]) -> Iterator[Felt]:
    for row in rows:
        yield _at_most(row["row"], row["figure"], row["must"])


def _workspaces(rows: list[dict[str, Any]]) -> Iterator[Felt]:
    for row in rows:
        yield Felt(row["row"], row["ratio"], row["must"], "git / ours", row["reached"] != "no")


def _scripts(rows: Any) -> Iterator[Felt]:
    for row in rows:
        yield Felt(row["row"], row["figure"], row["must"], row["unit"], row["reached"])


BENCHMARKS = (
    Benchmark("gateway", ("read a file", "recorded call", "--rounds", "100"), _gateway),
    Benchmark("tool_calls", ("isolated", "warm round trip"), _tool_calls),
    Benchmark("start_up", ("--rounds", "11"), _start_up),
    Benchmark("index_sync", ("2000", "--rounds", "3"), _index_sync),
    Benchmark("server_pages", ("--rounds", "5", "--messages", "2000"), _server_pages),
    Benchmark("sources", (), _sources),
    Benchmark("scripts", ("--rounds", "3"), _scripts),
    Benchmark("policy", (), _policy),
    Benchmark(
        "workspaces",
        ("changed: 1k", "1 file of 1k", "create a branch", "old file", "switch", "--rounds", "11"),
        _workspaces,
    ),
)


def measured(benchmark: Benchmark, fastmcp: str | None) -> list[Felt]:
    """Run a benchmark and return its rows; an empty list for the MCP server's benchmark without ``fastmcp``."""
    arguments = [*benchmark.arguments, "--json"]
    if benchmark.module == "gateway":
        if fastmcp is None:
            return []
        arguments += ["--fastmcp", fastmcp]
    if benchmark.module in {"sources", "scripts"} and fastmcp is not None:
        arguments += ["--fastmcp", fastmcp]
    command = [sys.executable, "-m", f"bench.{benchmark.module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if (
        done.returncode not in {0, 1} or not done.stdout
    ):  # with 1, a benchmark says that it misses a row itself
        raise subprocess.CalledProcessError(done.returncode, command)
    return list(benchmark.read(_values(done.stdout)))


def _values(text: str) -> Any:
    """Return the JSON value of a text, or a list of those of its lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter that has fastmcp")
    parser.add_argument("--only", default="", metavar="PART", help="part of a benchmark's name")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows: list[Felt] = []
    for benchmark in BENCHMARKS:
        if asked.only not in benchmark.module:
            continue
        began = time.monotonic()
        try:
            felt = measured(benchmark, asked.fastmcp)
        except (
            subprocess.CalledProcessError
        ):  # its own message is above; the rows of the others stay
            felt = [Felt(f"{benchmark.module} failed", 0, 0, "", reached=False)]
        rows += felt
        took = (
            f"{time.monotonic() - began:.0f} s" if felt else "left out: it needs --fastmcp PYTHON"
        )
        print(f"{benchmark.module}: {took}", file=sys.stderr)
    missed = [row for row in rows if not row.reached]
    if asked.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        for row in [*(row for row in rows if row.reached), *missed]:
            verdict = "reached" if row.reached else "MISSED"
            print(f"{row.row:50} {row.figure:9.2f} {row.unit:10} must {row.must:6g}  {verdict}")
        print(f"{len(rows) - len(missed)} of {len(rows)} rows reach what they must")
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
