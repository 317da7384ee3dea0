"""How long the index takes to follow the toolsets' files, compared with what others take, in one run.

    python -m bench.index_sync [TOOLSETS] [--row ROW] [--rounds N] [--folder FOLDER] [--json]

The corpus has TOOLSETS toolsets (10,000) of four files each: a toolset.yaml of 68 lines with four
tools, their Python, an artifact and an asset.  Both sides of a row take turns, each in a process of
its own that is not counted; figures are medians in milliseconds, with the page cache warm.

- *cold*: an index that was not there, compared with a script that does the least: ``os.walk`` and PyYAML's C
  loader over every toolset.yaml, nothing checked and nothing stored.  Goal: 0.40 of it.
- *cold, safe_load*: the same compared with ``yaml.safe_load``, which most scripts use; a third of the rounds.
- *cold, libraries alone*: what the cold row would be if all that is ours took no time: on every core the
  files read and hashed, libyaml's events, Python's parser; then SQLite's rows and words.
- *no-op*: nothing changed, compared with ``git status`` of the same tree.  Goal: 1.4 of it.
- *one change*: one toolset.yaml was saved, compared with the no-op.  Goal: 1.1 of it.  Both in a process that
  has read a toolset before, as those have that watch; what the first one costs anew is *first*.

``--row`` names one to run alone; *libraries alone* is run only so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from covalt_git.toolsets.new_project import create_project

MANY = 10_000
HEAD = """\
manifest_version: "1"
id: {id}
name: {name}
version: "1.{number}.0"
description: What the {name} team does with the records of the {word} district
defaults:
  enabled: true
  requires_confirmation: false
tools:
"""
TOOL = """\
  - id: {verb}_record
    name: {title} Record
    description: {title} one record of the {word} district, and tell what became of it
    entrypoint: tools.records:{verb}_record
    requires_confirmation: {asks}
    input_schema:
      type: object
      required: [key]
      properties:
        key: {{type: string, description: The key of the record, minLength: 1}}
        note: {{type: string, description: Why it is done}}
        limit: {{type: integer, minimum: 1, maximum: 100, default: 20}}
    annotations:
      read_only: false
"""
TAIL = """\
tool_overrides:
  - tool_id: read_record
    renderer: html
    renderer_config: {artifact: artifacts/record.html}
"""
PYTHON = '''\
def {verb}_record(key: str, note: str = "", limit: int = 20) -> dict:
    """{title} a record."""
    return {{"key": key, "note": note, "limit": limit}}
'''
VERBS = ("read", "write", "merge", "archive")
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "indigo", "kelp")

PLAIN = """
import os, sys, time, yaml
started = time.perf_counter()
found = {}
for folder, _, names in os.walk(sys.argv[1]):
    if "toolset.yaml" in names:
        with open(os.path.join(folder, "toolset.yaml"), "rb") as file:
            found[folder] = yaml.load(file, Loader=getattr(yaml, sys.argv[2]))
print(time.perf_counter() - started)
"""
LIBRARIES = """
import ast, gc, hashlib, os, sqlite3, sys, time, yaml
from covalt_git.system.fork_pool import each

def work(name):
    top = f"{sys.argv[1]}/{name}/"
    content = {}
    for path in ("toolset.yaml", "tools/records.py", "artifacts/record.html", "assets/districts.csv"):
        with open(top + path, "rb", buffering=0) as file:
            content[path] = file.read()
        hashlib.sha256(content[path]).hexdigest()
    next_event = yaml.CBaseLoader(content["toolset.yaml"]).get_event
    while next_event() is not None:
        pass
    ast.parse(content["tools/records.py"])
    return name

started = time.perf_counter()
names = [entry.name for entry in os.scandir(sys.argv[1]) if entry.name[-1].isdigit()]
with sqlite3.connect(sys.argv[2]) as index:
    index.execute("CREATE TABLE rows (id TEXT PRIMARY KEY, of TEXT, text TEXT) STRICT")
    index.execute("CREATE INDEX rows_of ON rows (of)")
    index.execute("CREATE VIRTUAL TABLE words USING fts5 (name, text, tokenize = 'porter unicode61')")
    text = "one record of the district, and what became of it " * 6
    for name in each(work, names):
        index.executemany(
            "INSERT INTO rows VALUES (?, ?, ?)", [(f"{name}:{row}", name, text) for row in range(11)]
        )
        index.executemany("INSERT INTO words VALUES (?, ?)", [(name, text[:150])] * 4)
print(time.perf_counter() - started)
"""
OURS = """
import sys, time
from pathlib import Path
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.index.index import Index
from covalt_git.models.project_config import WorkspaceConfig
if "warm" in sys.argv:
    read_toolset(Path(sys.argv[1]), "app-builder")
started = time.perf_counter()
with Index.open(Path(sys.argv[1]), WorkspaceConfig()) as index:
    index.sync_toolsets()
print(time.perf_counter() - started)
"""


def make(root: Path, count: int) -> None:
    create_project(root)
    put_toolsets(root, count)


def put_toolsets(root: Path, count: int) -> None:
    for number in range(count):
        word = WORDS[number % len(WORDS)]
        folder = root / "toolsets" / f"{word}-{number:05}"
        for part in ("tools", "artifacts", "assets"):
            (folder / part).mkdir(parents=True)
        facts = {"id": folder.name, "name": f"{word.title()} {number}", "word": word}
        manifest = HEAD.format(number=number, **facts)
        for verb in VERBS:
            asks = "true" if verb == "write" else "false"
            manifest += TOOL.format(verb=verb, title=verb.title(), asks=asks, word=word)
        (folder / "toolset.yaml").write_text(manifest + TAIL, encoding="utf-8")
        code = f"# of {folder.name}\n" + "\n\n".join(
            PYTHON.format(verb=verb, title=verb.title()) for verb in VERBS
        )
        (folder / "tools/records.py").write_text(code, encoding="utf-8")
        (folder / "artifacts/record.html").write_text(
            f"<!doctype html><title>{number}</title><pre id=it></pre>\n", encoding="utf-8"
        )
        (folder / "assets/districts.csv").write_text(f"key,district\n{number},{word}\n")


def timed(script: str, path: Path, *words: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout) * 1e3


def git_status(root: Path) -> float:
    started = time.perf_counter()
    subprocess.run(
        ["git", "-C", str(root), "status", "--porcelain"], check=True, capture_output=True
    )
    return (time.perf_counter() - started) * 1e3


def commit(root: Path) -> None:
    for words in (
        ["init", "-q"],
        ["config", "core.untrackedCache", "false"],
        ["add", "-A"],
        ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", "-C", str(root), *words], check=True)


def touch_one(root: Path, number: int) -> None:
    folder = sorted((root / "toolsets").glob("*-*[0-9]"))[number]
    manifest = folder / "toolset.yaml"
    manifest.write_text(manifest.read_text() + f"# {number}\n", encoding="utf-8")
    time.sleep(0.05)  # more than one tick of the clock, so that the change is visible


def measure(root: Path, rounds: int, wanted: str) -> dict[str, dict[str, float]]:
    index = root / "data" / "index.db"
    pairs: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        if wanted in {"", "cold"}:
            index.unlink(missing_ok=True)
            peer = timed(PLAIN, root / "toolsets", "CSafeLoader")
            pairs.setdefault("cold", []).append((timed(OURS, root), peer))
        if wanted in {"", "cold, safe_load"} and number % 3 == 0:
            index.unlink(missing_ok=True)
            peer = timed(PLAIN, root / "toolsets", "SafeLoader")
            pairs.setdefault("cold, safe_load", []).append((timed(OURS, root), peer))
        if wanted == "cold, libraries alone":
            peer = timed(PLAIN, root / "toolsets", "CSafeLoader")
            with tempfile.TemporaryDirectory() as scratch:
                ours = timed(LIBRARIES, root / "toolsets", f"{scratch}/index.db")
            pairs.setdefault(wanted, []).append((ours, peer))
            continue
        timed(OURS, root)
        if wanted in {"", "no-op"}:
            pairs.setdefault("no-op", []).append((timed(OURS, root), git_status(root)))
        for name, words in (("one change", ["warm"]), ("first", [])):
            if wanted in {"", name}:
                touch_one(root, number)
                ours = timed(OURS, root, *words)
                pairs.setdefault(name, []).append((ours, timed(OURS, root, *words)))
    told = {}
    for name, times in pairs.items():
        ours, peer = (statistics.median(side) for side in zip(*times, strict=True))
        ratio = statistics.median(one / other for one, other in times)
        told[name] = {"ms": round(ours, 1), "peer_ms": round(peer, 1), "ratio": round(ratio, 2)}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how the index follows the files.")
    parser.add_argument("toolsets", type=int, nargs="?", default=MANY)
    parser.add_argument("--rounds", type=int, default=5)
    rows = ["cold", "cold, safe_load", "cold, libraries alone", "no-op", "one change", "first"]
    parser.add_argument("--row", choices=rows, default="", help="the only row to run")
    parser.add_argument("--folder", type=Path, help="a corpus to make there, or one made before")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = asked.folder or Path(scratch) / "project"
        if not (root / "covalt.yaml").exists():
            make(root, asked.toolsets)
            commit(root)
        told = measure(root, asked.rounds, asked.row)
    if asked.json:
        print(json.dumps(told, indent=2))
        return
    print(f"{'':24}{'ms':>12}{'peer ms':>12}{'ratio':>8}")
    for name, row in told.items():
        print(f"{name:24}{row['ms']:12.1f}{row['peer_ms']:12.1f}{row['ratio']:8.2f}")


if __name__ == "__main__":
    main()
