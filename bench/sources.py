"""An OpenAPI document of 1,200 operations becomes a lock, beside FastMCP's `from_openapi` and `list_tools`.

    python -m bench.sources [--fastmcp PYTHON] [--mcpify PYTHON] [--rounds N] [--json]

``PYTHON`` is an interpreter that has fastmcp or mcpify; without it, their figures are left out.  To install both::

    python -m venv /tmp/others && /tmp/others/bin/pip install fastmcp mcpify-openapi

Rows:

- the time from the document to the lock with its definitions, by FastMCP's time to its definitions: at most 0.1;
- the size of the lock by that of the document: at most 3;
- the time for 2,400 operations by that for 1,200: at most 2.3;
- eight requests and eight hostile values: right or wrong, as a table.

Each time is the least of the rounds; FastMCP has one round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench.openapi_document import document
from bench.openapi_requests import HOSTILE, REQUESTS, verdict
from bench.openapi_requests import document as document_of_requests
from covalt_git.compilers.openapi import compile_openapi
from covalt_git.errors import CovaltError
from covalt_git.http_tools.request import RequestBuilder
from covalt_git.json_values import json_schema
from covalt_git.manifests.state_files import lock_text
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.sources import adding

if TYPE_CHECKING:
    from covalt_git.templating.references import Reference

MUST = {"time by FastMCP": 0.1, "lock by document": 3.0, "2,400 by 1,200 operations": 2.3}
OPERATIONS = 1200
_FASTMCP = "fastmcp_openapi.py"
_MCPIFY = "mcpify_openapi.py"
_MANIFEST = 'id: api\nname: API\nversion: "1"\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter that has fastmcp")
    parser.add_argument("--mcpify", metavar="PYTHON", help="an interpreter that has mcpify-openapi")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    small, large = (json.dumps(document(OPERATIONS * times)) for times in (1, 2))
    seconds, lock_size = compiled(small, asked.rounds)
    figures = {
        "lock by document": lock_size / len(small.encode()),
        "2,400 by 1,200 operations": compiled(large, asked.rounds)[0] / seconds,
    }
    sent: dict[str, list[Any]] = {"ours": requests()}
    if asked.fastmcp is not None:
        with TemporaryDirectory() as folder:
            (file := Path(folder, "api.json")).write_text(small, encoding="utf-8")
            definitions = _theirs(asked.fastmcp, _FASTMCP, str(file))
        figures["time by FastMCP"] = seconds / definitions["seconds"]
        sent["fastmcp"] = _theirs(asked.fastmcp, _FASTMCP, "--requests")
    if asked.mcpify is not None:
        sent["mcpify"] = _theirs(asked.mcpify, _MCPIFY)
    table = [
        {"case": case.title} | {who: verdict(case, sent[who][number]) for who in sent}
        for number, case in enumerate((*REQUESTS, *HOSTILE))
    ]
    if asked.json:
        rows = [
            {"row": row, "figure": figure, "must": MUST[row]} for row, figure in figures.items()
        ]
        print(json.dumps({"rows": rows, "requests": table}))
    else:
        print(
            f"{OPERATIONS:,} operations, {len(small):,} bytes: {seconds:.2f} s, a lock of {lock_size:,} bytes"
        )
        if asked.fastmcp is not None:
            print(
                f"FastMCP: {definitions['seconds']:.2f} s, definitions of {definitions['bytes']:,} bytes"
            )
        for row, figure in figures.items():
            reached = "reached" if figure <= MUST[row] else "MISSED"
            print(f"{row:28} {figure:6.3f}  must {MUST[row]:4g}  {reached}")
        print()
        for line in ({who: who for who in table[0]}, *table):
            case, *verdicts = line.values()
            print(f"{case:34} " + " ".join(f"{word:7}" for word in verdicts).rstrip())
    if any(line["ours"] == "wrong" for line in table) or any(
        figure > MUST[row] for row, figure in figures.items()
    ):
        raise SystemExit(1)


def compiled(text: str, rounds: int) -> tuple[float, int]:
    """Return the least seconds from a document to its lock, and the bytes of the lock."""
    times = []
    with TemporaryDirectory() as folder:
        toolset = Path(folder, "toolsets/api")
        toolset.mkdir(parents=True)
        (toolset / "toolset.yaml").write_text(_MANIFEST, encoding="utf-8")
        opened = adding.OpenedDocument("big.json", "openapi", {"big.json": text.encode()})
        for _ in range(rounds):
            started = time.perf_counter()
            lock = adding.plan(Path(folder), "api", opened, adding.SourceOptions("big")).lock
            times.append(time.perf_counter() - started)
    return min(times), len(lock_text(lock).encode())


def requests() -> list[dict[str, str] | str]:
    """Return the request of each case, or the message of its refusal."""
    compilation = compile_openapi(json.dumps(document_of_requests()), namespace="x")
    tools = {tool.upstream: tool for tool in compilation.tools.values()}
    results: list[dict[str, str] | str] = []
    for case in (*REQUESTS, *HOSTILE):
        tool = tools[case.operation]
        http = HttpRequest.model_validate(tool.request)
        schema = tool.input_schema | {"$defs": dict(compilation.definitions)}
        if problems := json_schema.value_problems(schema, case.args):
            results.append(str(problems[0]))
            continue
        try:
            request = RequestBuilder(http, case.args, _no_value, _no_value, _no_file).build()
        except CovaltError as error:
            results.append(error.message)
            continue
        url = urlsplit(request.url)
        headers = {name.lower(): value for name, value in request.headers}
        target = url.path + (f"?{url.query}" if url.query else "")
        results.append({**headers, "target": target, "body": (request.content or b"").decode()})
    return results


def _no_value(_: Reference) -> str:
    return ""


def _no_file(_: str) -> bytes:
    return b""


def _theirs(python: str, script: str, *arguments: str) -> Any:
    command = [python, str(Path(__file__).with_name(script)), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
