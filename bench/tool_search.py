"""How well tools are found by what people ask, and how fast; what each idea of the search gives.

    python -m bench.tool_search FOLDER [--mcp PYTHON] [--json]

FOLDER holds pairs ``<set>.tools.jsonl`` (``id``, ``name``, ``description``, ``inputSchema`` and maybe
``tool``, the name of the toolset, and ``category``) and ``<set>.queries.jsonl`` (``query``,
``relevant``: ids).  recall@k is the share of the relevant tools among the first k, MRR the inverse of
the first relevant one's rank; both are means over the queries.

Each row switches one more idea on, from plain BM25 on; the last is the product: ``Index.search``.
Rows marked with - leave one thing of the product out; those marked with ? are ideas that it does not
have, because they gave nothing here.

``--mcp PYTHON`` names an interpreter that has fastmcp.  Then its BM25, which shows everything, and our
search with a role of 50 patterns that sees about half answer the same queries over 10,000 tools, in
turns: a busy machine is busy for both.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import re
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.access import Principal
from covalt_git.catalog.catalog import Catalog
from covalt_git.index import database, search, search_text
from covalt_git.index.toolset_rows import put_rows, tool_rows
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.names import suggest_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEPTHS = (1, 5, 10)
ROUNDS = 5
MANY = 10_000
PATTERNS = 50
LIMIT = 20

Search = "Callable[[str], Sequence[str]]"
"""From a query to tool ids, the best first, at most ten."""


@dataclass(frozen=True)
class Collection:
    """Tools and the questions about them; ``relevant`` are our ids."""

    name: str
    tools: list[tuple[Tool, str]]
    queries: list[tuple[str, frozenset[str]]]


def read(folder: Path) -> list[Collection]:
    return [_collection(path) for path in sorted(folder.glob("*.tools.jsonl"))]


def _collection(path: Path) -> Collection:
    ours: dict[str, str] = {}
    tools = []
    for row in _rows(path):
        owner = row.get("tool") or row["id"].rpartition(".")[0] or "tools"
        namespace = suggest_id(owner) or "tools"
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", row["id"].rpartition(".")[2])[:60] or "tool"
        tool_id = f"{namespace}:{name}"
        if tool_id in ours.values():
            tool_id += f"_{len(ours)}"
        ours[row["id"]] = tool_id
        tool = Tool(
            tool_id=tool_id,
            toolset_id=namespace,
            name=row["name"],
            description=row["description"],
            input_schema=row["inputSchema"],
            tags=(row["category"],) if row.get("category") else (),
        )
        tools.append((tool, owner))
    questions = [
        (row["query"], frozenset(ours[name] for name in row["relevant"]))
        for row in _rows(path.with_name(path.name.replace(".tools.", ".queries.")))
    ]
    return Collection(path.name.partition(".")[0], tools, questions)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- the ways of searching ---------------------------------------------------------------------------


def plain_bm25(tools: list[tuple[Tool, str]]) -> Callable[[str], list[str]]:
    """BM25 (k1 1.2, b 0.75) over all text of a tool as it is written, after Robertson and Zaragoza."""
    documents = []
    for tool, owner in tools:
        texts = list(search_text.parameters(tool.input_schema))
        parts = [
            tool.name,
            owner,
            tool.description,
            *tool.tags,
            *(word for pair in texts for word in pair),
        ]
        documents.append(Counter(re.findall(r"\w+", " ".join(parts).lower())))
    mean = statistics.fmean(document.total() for document in documents)
    places = defaultdict(list)
    for number, document in enumerate(documents):
        for word, count in document.items():
            norm = 1.2 * (0.25 + 0.75 * document.total() / mean)
            places[word].append((number, count * 2.2 / (count + norm)))

    def find(query: str) -> list[str]:
        scores: dict[int, float] = defaultdict(float)
        for word in re.findall(r"\w+", query.lower()):
            seen = len(places[word])
            rarity = math.log(1 + (len(documents) - seen + 0.5) / (seen + 0.5))
            for number, weight in places[word]:
                scores[number] += rarity * weight
        best = sorted(scores, key=lambda number: (-scores[number], number))[: DEPTHS[-1]]
        return [tools[number][0].tool_id for number in best]

    return find


@dataclass(frozen=True)
class Ideas:
    """A search over FTS5 with some of the product's ideas."""

    split: bool = False
    stem: bool = False
    filler: bool = False
    weights: bool = False
    whole: bool = False
    bigrams: bool = False
    trigrams: bool = False
    columns: tuple[float, ...] = field(default=tuple(search.WEIGHTS.values()))

    def over(self, tools: list[tuple[Tool, str]]) -> Callable[[str], list[str]]:
        base = "trigram" if self.trigrams else "unicode61 remove_diacritics 2"
        tokenize = f"porter {base}" if self.stem and not self.trigrams else base
        names = ", ".join(search.WEIGHTS)
        connection = sqlite3.connect(":memory:")
        connection.execute(
            f"CREATE VIRTUAL TABLE found USING fts5({names}, tokenize = '{tokenize}')"
        )
        for row_id, (tool, owner) in enumerate(tools):
            text = search_text.searchable_text(tool, owner)
            if not self.split:
                text["name"] = f"{tool.name} {tool.tool_id.partition(':')[2]}"
                pairs = list(search_text.parameters(tool.input_schema))
                text["parameters"] = " ".join(name for name, _ in pairs)
            connection.execute(
                f"INSERT INTO found (rowid, {names}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (row_id, *text.values()),
            )
        weights = self.columns if self.weights else (1.0,) * len(search.WEIGHTS)
        ranked = f"bm25(found, {', '.join(map(str, weights))}), rowid LIMIT {DEPTHS[-1]}"

        def ask(match: str) -> list[str]:
            if not match:
                return []
            rows = connection.execute(
                f"SELECT rowid FROM found WHERE found MATCH ? ORDER BY {ranked}", (match,)
            )
            return [tools[row_id][0].tool_id for (row_id,) in rows]

        def find(query: str) -> list[str]:
            words = re.findall(r"[^\W_]+", query.lower())
            if self.filler:
                words = search_text.query_words(query)
            if self.trigrams:
                words = [word for word in words if len(word) > 2]
            quoted = [f'"{word}"' for word in words]
            if self.bigrams:
                quoted += [f'"{one} {two}"' for one, two in itertools.pairwise(words)]
            found = ask(" AND ".join(quoted)) if self.whole else []
            return list(dict.fromkeys(found + ask(" OR ".join(quoted))))[: DEPTHS[-1]]

        return find


class Product:
    """The index's own search, over rows written as a sync writes them."""

    def __init__(self, tools: list[tuple[Tool, str]], file: Path) -> None:
        self.connection = database.connect(file)
        with database.transaction(self.connection):
            for tool, owner in tools:
                put_rows(self.connection, tool_rows(tool, owner, toolset_id=None))

    def find(self, query: str) -> list[str]:
        return search.find(self.connection, query, lambda _: True, DEPTHS[-1])


def measure(found: Collection, find: Callable[[str], Sequence[str]]) -> dict[str, float]:
    recall = dict.fromkeys(DEPTHS, 0.0)
    first = 0.0
    times = []
    for query, relevant in found.queries:
        started = time.perf_counter()
        answers = find(query)
        times.append(time.perf_counter() - started)
        for depth in DEPTHS:
            recall[depth] += len(relevant.intersection(answers[:depth])) / len(relevant)
        ranks = [rank for rank, name in enumerate(answers, 1) if name in relevant]
        first += 1 / ranks[0] if ranks else 0
    count = len(found.queries)
    shares = {f"recall@{depth}": round(recall[depth] / count, 3) for depth in DEPTHS}
    return shares | {"mrr": round(first / count, 3), "ms": round(statistics.median(times) * 1e3, 3)}


def rows(found: Collection, folder: Path) -> dict[str, dict[str, float]]:
    full = Ideas(split=True, stem=True, filler=True, weights=True, whole=True)
    steps: dict[str, Ideas] = {
        "fts5, no idea": Ideas(),
        "+ names split": Ideas(split=True),
        "+ stemming": Ideas(split=True, stem=True),
        "+ no filler words": Ideas(split=True, stem=True, filler=True),
        "+ field weights": replace(full, whole=False),
        "+ AND before OR": full,
    }
    without: dict[str, Ideas] = {
        "- names split": replace(full, split=False),
        "- stemming": replace(full, stem=False),
        "- no filler words": replace(full, filler=False),
        "- field weights": replace(full, weights=False),
        "? bigrams": replace(full, bigrams=True),
        "? trigrams for words": replace(full, trigrams=True),
    }
    told = {"plain bm25": measure(found, plain_bm25(found.tools))}
    told |= {name: measure(found, ideas.over(found.tools)) for name, ideas in steps.items()}
    product = Product(found.tools, folder / f"{found.name}.db")
    with contextlib.closing(product.connection):
        told["+ beginnings and slips = product"] = measure(found, product.find)
    told |= {name: measure(found, ideas.over(found.tools)) for name, ideas in without.items()}
    return told


# --- compared with FastMCP ----------------------------------------------------------------------------------

PEER = """
import json, sys, time
from fastmcp.server.transforms.search.bm25 import _BM25Index
limit = int(sys.argv[1])
documents = json.loads(sys.stdin.readline())
index = _BM25Index()
index.build(documents)
print("ready", flush=True)
for line in sys.stdin:
    query = json.loads(line)
    started = time.perf_counter()
    index.query(query, limit)
    print(time.perf_counter() - started, flush=True)
"""


def many(collections: list[Collection]) -> list[tuple[Tool, str]]:
    """Return 10,000 tools: those that there are, again and again under other toolsets' names."""
    every = [pair for found in collections for pair in found.tools]
    made = []
    for number in range(MANY):
        tool, owner = every[number % len(every)]
        copy = number // len(every)
        namespace = f"{tool.toolset_id[:50]}-{copy}"
        name = tool.tool_id.partition(":")[2]
        fields = {"tool_id": f"{namespace}:{name}", "toolset_id": namespace}
        made.append((tool.model_copy(update=fields), owner))
    return made


def _beginnings(tools: list[tuple[Tool, str]]) -> list[str]:
    """Return half of the letters that toolsets begin with, and single toolsets, 50 in all."""
    owners = sorted({tool.toolset_id for tool, _ in tools})
    letters = sorted({owner[0] for owner in owners})[::2]
    single = [owner for owner in owners if owner[0] not in letters]
    return [f"{letter}*" for letter in letters] + single[: PATTERNS - len(letters)]


def beside_fastmcp(collections: list[Collection], python: str, folder: Path) -> dict[str, float]:
    tools = many(collections)
    queries = [query for found in collections for query, _ in found.queries[::4]]
    short = [" ".join(search_text.query_words(query)[:3]) for query in queries]
    role = {"allow": [f"{start}.**" for start in _beginnings(tools)]}
    config = ProjectConfig.model_validate({"version": 1, "roles": {"half": role}})
    catalog = Catalog(config, Principal("bench", "half"), folder)
    product = Product(tools, folder / "many.db")
    documents = [
        " ".join(search_text.searchable_text(tool, owner).values()) for tool, owner in tools
    ]
    peer = subprocess.Popen(
        [python, "-c", PEER, str(LIMIT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert peer.stdin
    assert peer.stdout
    print(json.dumps(documents), file=peer.stdin, flush=True)
    peer.stdout.readline()

    def theirs(query: str) -> float:
        print(json.dumps(query), file=peer.stdin, flush=True)
        return float(peer.stdout.readline())

    def ours(query: str) -> float:
        started = time.perf_counter()
        search.find(product.connection, query, catalog.sees, LIMIT)
        return time.perf_counter() - started

    told: dict[str, float] = {"seen": sum(catalog.sees(tool.tool_id) for tool, _ in tools)}
    for name, asked in (("three words", short), ("whole questions", queries)):
        times = [(ours(query), theirs(query)) for _ in range(2) for query in asked]
        mine, peers = (statistics.median(side) * 1e3 for side in zip(*times, strict=True))
        told |= {f"{name}, ms": round(mine, 2), f"{name}, fastmcp ms": round(peers, 2)}
        told |= {f"{name}, ratio": round(mine / peers, 2)}
    peer.stdin.close()
    peer.wait()
    product.connection.close()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the search for tools.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mcp", help="an interpreter that has fastmcp")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    collections = read(asked.folder)
    with tempfile.TemporaryDirectory() as scratch:
        told: dict[str, Any] = {one.name: rows(one, Path(scratch)) for one in collections}
        if asked.mcp:
            told["beside fastmcp"] = beside_fastmcp(collections, asked.mcp, Path(scratch))
    if asked.json:
        print(json.dumps(told, indent=2))
        return
    for one in collections:
        print(f"{one.name}: {len(one.tools)} tools, {len(one.queries)} queries")
        print(
            f"  {'':34}"
            + "".join(f"{name:>11}" for name in ("recall@1", "recall@5", "recall@10", "mrr", "ms"))
        )
        for name, figures in told[one.name].items():
            print(f"  {name:34}" + "".join(f"{figure:11.3f}" for figure in figures.values()))
    for name, figure in told.get("beside fastmcp", {}).items():
        print(f"{name}: {figure}")


if __name__ == "__main__":
    main()
