"""Stubs of tools: they are valid, and nothing in a description or a name can end its place."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.runtime.scripts.stubs import StubTool, python_stubs, typescript_stubs
from tests.examples import examples

MAIL = StubTool(
    "gmail.messages.list",
    'List the "mails" of */ a query.\n\nMore.',
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": ["integer", "null"]},
            "order": {"enum": ["newest", "oldest"]},
            "labels": {"type": "array", "items": {"$ref": "#/$defs/Label"}},
        },
        "required": ["query"],
        "additionalProperties": False,
        "$defs": {"Label": {"type": "object", "properties": {"id": {"type": "number"}}}},
    },
    {"type": "array", "items": {"type": "string"}},
)
LAB = StubTool("data-lab.sum", "Add.", {"type": "object", "additionalProperties": False})
PARENT = StubTool("gmail", "Of a tool with tools below it.", {"type": "object"})

PYTHON = """\
# The tools of scripts. In a script with `await`, each call returns an awaitable of this result.
import builtins
from typing import Any, Literal

class _tools:
    def search(self, *, query: builtins.str, limit: builtins.int = ...) -> Any:
        "Search the tools that can be called."
    class _describe:
        def tool(self, *, path: builtins.str) -> Any:
            "Return the description and the schemas of a tool."
        ...
    describe: _describe
    # getattr(tools, "data-lab")
    class _gmail:
        def __call__(self, **arguments: Any) -> Any:
            "Of a tool with tools below it."
        class _messages:
            def list(self, *, query: builtins.str, limit: builtins.int | None = ..., \\
order: Literal['newest', 'oldest'] = ..., labels: builtins.list[builtins.dict[builtins.str, Any]] = ...) -> builtins.list[builtins.str]:
                "List the \\"mails\\" of */ a query."
            ...
        messages: _messages
        ...
    gmail: _gmail
    ...

tools: _tools
args: dict[str, Any]
""".replace("\\\n", "")
TYPESCRIPT = """\
declare const tools: {
  /** Search the tools that can be called. */
  search(args: { query: string; limit?: number }): Promise<any>;
  describe: {
    /** Return the description and the schemas of a tool. */
    tool(args: { path: string }): Promise<any>;
  };
  "data-lab": {
    /** Add. */
    sum(args?: Record<string, never>): Promise<any>;
  };
  /** Of a tool with tools below it. */
  gmail: {
    (args?: { [name: string]: unknown }): Promise<any>;
    messages: {
      /** List the "mails" of * / a query. */
      list(args: { query: string; limit?: number | null; order?: "newest" | "oldest"; \\
labels?: Array<{ id?: number; [name: string]: unknown }> }): Promise<Array<string>>;
    };
  };
};
declare const args: { [name: string]: unknown };
""".replace("\\\n", "")


def test_stubs_have_the_types_of_the_schemas() -> None:
    assert python_stubs([MAIL, LAB, PARENT]) == PYTHON
    assert typescript_stubs([PARENT, MAIL, LAB]) == TYPESCRIPT


@pytest.mark.rest
def test_type_checker_reads_the_stub(tmp_path: Path) -> None:
    (tmp_path / "tools.pyi").write_text(python_stubs([MAIL, PARENT]), encoding="utf-8")
    use = "from tools import tools\ntools.gmail.messages.list(limit=3)\ntools.gmail(x=1)\nn: int = tools.gmail.messages.list(query='')\n"
    (tmp_path / "use.py").write_text(use, encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "use.py", "tools.pyi"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    lines = [line.partition(": error: ")[0] for line in ran.stdout.splitlines() if "error:" in line]
    assert lines == ["use.py:2", "use.py:4"], ran.stdout


TEXTS = st.text(alphabet=st.sampled_from(list("ab\"'\\*/`{}\n\r\u2028\u202e#_.- ")), max_size=12)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        [
            True,
            None,
            {},
            {"type": "string"},
            {"$ref": "#"},
            {"$ref": "#/$defs/a"},
            {"type": 1},
            {"const": "*/"},
        ]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=2)}),
        st.dictionaries(TEXTS, inner, max_size=3).map(
            lambda members: {"type": "object", "properties": members, "required": [*members][:1]}
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.builds(
            StubTool,
            st.lists(TEXTS.filter(lambda text: "." not in text), min_size=1, max_size=3).map(
                ".".join
            ),
            TEXTS,
            SCHEMAS.map(lambda schema: schema if isinstance(schema, dict) else {}),
            st.none() | SCHEMAS.filter(lambda schema: isinstance(schema, dict)),
        ),
        max_size=4,
    )
)
def test_no_tool_breaks_the_stubs(tools: list[StubTool]) -> None:
    tree = ast.parse(python_stubs(tools))

    assert [type(node).__name__ for node in tree.body] == [
        "Import",
        "ImportFrom",
        "ClassDef",
        "AnnAssign",
        "AnnAssign",
    ]
    comments = [line for line in typescript_stubs(tools).splitlines() if "/**" in line]
    assert all(line.rstrip().endswith("*/") and line.count("*/") == 1 for line in comments)
