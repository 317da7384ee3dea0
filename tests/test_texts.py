"""Plain English: phrases that a reader has to decode are rare, and names are terms, not participles."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("covalt_git", "server", "covalt_toolset", "toolsets", "docs", *ROOT.glob("*.md"))
DOCUMENTS = {".md", ".html"}

VAGUE = re.compile(
    r"\b(?:told|tell(?:s|ing)?|nobody|somebody|anybody|whoever|stands?|mend(?:s|ed)?|in force|in vain|walls|"
    r"what came of|nothing of|of ours|of theirs|a look|look(?:s|ed)? at|take[ns]? in|taking in|way out|shut in|"
    r"given away|last words|keeper|said so|asks? first|goes? on|(?-i:is none|are none)|is no (?:file|name|such)|"
    r"is to be|are to be|what is (?:small|large|known|there|left|new|told|given|stored|asked)|"
    # Words that are right in some sentences, and vague in most.
    r"beside|apart|one that|those that|(?:is|are|was|were|be) kept|is here|are here|whole or not|"
    r"holds? (?:for|if|where|when|as|only|in|on))\b",
    re.IGNORECASE,
)

VAGUE_NAMES = frozenset(
    [
        "told",
        "said",
        "given",
        "kept",
        "asked",
        "seen",
        "beside",
        "standing",
        "foreseen",
        "look",
        "whole",
        "made",
    ]
)
ALLOWED = {
    "GrantAsked": "schema of the OpenAPI document",
    "asked": "key of stored call records, and of `source list --json`",
    "chat_made_by": "key of `get_workspace_manifest`",
    "connection_made": "method of asyncio.Protocol",
    "kept": "key of `source diff --json`",
    "made": "key of commits, restores and new toolsets in `--json`",
    "made_by": "key of chats, in refs and in `--json`",
    "said": "key of `doctor --json`",
}

IN_TWO_MODULES = {
    "ArgumentProblem": "record of the SDK, which imports nothing of covalt_git; result of the API",
    "Project": "class of the public Python API; the engine's, which it opens",
}


OTHER_THAN_CODE = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|\'{3}(?:\\.|[^\\])*?\'{3}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(#[^\n]*)''',
    re.DOTALL,
)
"""A string of Python, or a comment, which is its group: tokenizing takes ten times as long."""


def code_files(*roots: str) -> Iterator[Path]:
    for root in roots:
        path = ROOT / root
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (one for one in files if "vendor" not in one.parts and one.is_file())


def lines(path: Path) -> Iterator[str]:
    """Yield the prose of a file: of code its docstrings, messages, comments and function names."""
    if path.suffix in DOCUMENTS:
        yield from re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8")).splitlines()
    if path.suffix != ".py":
        return
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from node.value.splitlines()
        elif isinstance(node, ast.FunctionDef):
            yield node.name.replace("_", " ")
    yield from filter(None, OTHER_THAN_CODE.findall(source))


@pytest.mark.parametrize(
    ("roots", "most"),
    [pytest.param(PRODUCT, 1.0, id="product"), pytest.param(("tests", "bench"), 1.5, id="tests")],
)
def test_vague_phrases_are_rare(roots: tuple[str, ...], most: float) -> None:
    words, hits = 0, []
    for path in code_files(*roots):
        if path != Path(__file__):
            text = "\n".join(lines(path))
            words += len(text.split())
            hits += [f"{path.relative_to(ROOT)}: {phrase[0]}" for phrase in VAGUE.finditer(text)]

    assert len(hits) * 1000 / words <= most, "\n".join([f"{len(hits)} in {words} words:", *hits])


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield the names of classes, functions, parameters and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.ClassDef(name=name, body=body):
                yield name
                for statement in body:
                    if isinstance(statement, ast.AnnAssign) and isinstance(
                        statement.target, ast.Name
                    ):
                        yield statement.target.id
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def modules(*roots: str) -> Iterator[tuple[Path, str, str]]:
    """Yield modules, their texts, and their texts without strings and comments."""
    for path in code_files(*roots):
        if path.suffix == ".py":
            source = path.read_text(encoding="utf-8")
            yield path, source, OTHER_THAN_CODE.sub("", source)


def test_names_are_terms() -> None:
    found = set()
    vague = re.compile("|".join(VAGUE_NAMES), re.IGNORECASE)
    for path, source, code in modules("covalt_git", "server", "covalt_toolset", "toolsets"):
        names = identifiers(ast.parse(source)) if vague.search(code) else ()
        for name in (path.stem, *names):
            words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
            if VAGUE_NAMES & {word.lower() for word in words}:
                found.add(name)

    assert found == set(ALLOWED)


def test_a_class_name_is_defined_in_one_module() -> None:
    """Private classes may have equal names: a reader meets them in their module only."""
    names = Counter(
        name
        for _, _, code in modules("covalt_git", "server", "covalt_toolset")
        for name in re.findall(r"(?m)^\s*class ([A-Za-z]\w*)", code)
    )

    assert {name for name, count in names.items() if count > 1} == set(IN_TWO_MODULES)
