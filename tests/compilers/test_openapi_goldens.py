"""What each document gives: names, requests and digests; `--update-golden` writes them.

Those of the real documents are in `test_openapi_goldens.txt`, an operation a line.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covalt_git.compilers.compilation import Compilation
from covalt_git.compilers.openapi import compile_openapi
from covalt_git.json_values import canonical_json, json_schema
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.models.toolset_manifest import Source, ToolsetManifest
from covalt_git.sources.documents import compile_source

FOLDER = Path(__file__).parents[2] / "fixtures" / "openapi"
REAL = FOLDER.parents[2] / "shared" / "data" / "openapi"
REAL_GOLDEN = Path(__file__).with_suffix(".txt")
DIGITS = 16
DOCUMENTS = sorted(folder.name for folder in FOLDER.iterdir())


def compiled(name: str, **options: Any) -> Compilation:
    [main] = [file for file in (FOLDER / name).iterdir() if file.stem == "shelter"]

    def read_file(path: str) -> bytes | None:
        file = FOLDER / name / path
        return file.read_bytes() if file.is_file() else None

    return compile_openapi(
        main.read_bytes(), namespace="shelter", path=main.name, read_file=read_file, **options
    )


def with_definitions(schema: dict[str, Any], compilation: Compilation) -> dict[str, Any]:
    return schema | {"$defs": dict(compilation.definitions)}


def summary(compilation: Compilation) -> dict[str, Any]:
    return {
        "title": compilation.title,
        "tools": {
            name: {
                "upstream": tool.upstream,
                "request": tool.request,
                "digest": canonical_json.digest(
                    {**tool._asdict(), "definitions": compilation.definitions}
                ),
            }
            for name, tool in compilation.tools.items()
        },
        "left_out": [
            f"{part.place[0]}:{part.place[1]}: {part.upstream}: {part.reason}"
            for part in compilation.left_out
        ],
        "problems": [
            f"{problem.path}:{problem.line}:{problem.col}: {problem.code}"
            for problem in compilation.problems
        ],
        "secrets": dict(compilation.secrets),
    }


@pytest.mark.parametrize("name", DOCUMENTS)
def test_names_requests_and_digests_are_those_of_the_golden(
    name: str, pytestconfig: pytest.Config
) -> None:
    text = json.dumps(summary(compiled(name)), indent=1) + "\n"
    golden = FOLDER / name / "expected.json"
    if pytestconfig.getoption("update_golden"):
        golden.write_text(text, encoding="utf-8")

    assert golden.read_text(encoding="utf-8") == text


def lines_of(file: Path) -> list[str]:
    """Return document, name, and digests of the request and of the definition that users accept, for each tool."""
    source = Source.model_validate({"id": "real", "type": "openapi", "spec": file.name})
    manifest = ToolsetManifest(id="real", name="Real", version="1", sources=(source,))
    tools = compile_source(source, manifest, "real", {file.name: file.read_bytes()}.get).tools

    def short(digest: str) -> str:
        return digest.removeprefix("sha256:")[:DIGITS]

    return [
        f"{file.name} {name} {short(canonical_json.digest(tool.request))} {short(tool.digest)}"
        for name, tool in sorted(tools.items())
    ]


@pytest.mark.skipif(not REAL.is_dir(), reason="the real documents are not here")
def test_names_and_digests_of_the_real_documents_are_those_of_the_golden(
    pytestconfig: pytest.Config,
) -> None:
    documents = json.loads((REAL / "stats.json").read_text(encoding="utf-8"))
    lines = [line for name in sorted(documents) for line in lines_of(REAL / name)]
    if pytestconfig.getoption("update_golden"):
        REAL_GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")

    golden = REAL_GOLDEN.read_text(encoding="utf-8").splitlines()
    assert sorted(set(golden) ^ set(lines)) == []
    assert golden == lines


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_tool_is_valid(name: str) -> None:
    compilation = compiled(name)

    for tool in compilation.tools.values():
        HttpRequest.model_validate(tool.request)
        schemas = [tool.input_schema, *([tool.output_schema] if tool.output_schema else [])]
        for schema in schemas:
            assert json_schema.schema_problems(with_definitions(schema, compilation)) == []


@pytest.mark.rest
def test_results_do_not_depend_on_the_hash_seed() -> None:
    outputs = set()
    for seed in ("1", "2"):
        code = (
            "import json; from tests.compilers.test_openapi_goldens import *;"
            "print(json.dumps([[*compiled(name)._asdict().values()] for name in DOCUMENTS],"
            " default=lambda value: value() if callable(value) else str(value)))"
        )
        environment = os.environ | {"PYTHONHASHSEED": seed}
        root = FOLDER.parents[1]
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, check=True
        )
        outputs.add(run.stdout)

    assert len(outputs) == 1
