"""The three snippets of the seed, word for word, against a toolset ``gmail``."""

from pathlib import Path

import pytest

from tests.scripts.conftest import Scripts

SEED = Path("/work/shared/seeds/toolshed-concepts.txt")
MANIFEST = """\
id: gmail
name: Gmail
version: "1"
tools:
  - {id: messages.list, entrypoint: "tools.mail:list_messages", description: "List email.", annotations: {read_only: true}}
"""
CODE = """\
def list_messages(query: str) -> list[str]:
    return ["found " + query]
"""


@pytest.mark.skipif(not SEED.exists(), reason="the seed is not on this machine")
def test_the_snippets_of_the_seed_run_as_written(scripts: Scripts) -> None:
    lines = SEED.read_text(encoding="utf-8").splitlines()
    snippets = [line for line in lines if line.startswith("const ") and "await tools." in line]
    assert len(snippets) == 3
    folder = scripts.root / "toolsets/gmail/tools"
    folder.mkdir(parents=True)
    (folder.parent / "toolset.yaml").write_text(MANIFEST)
    (folder / "mail.py").write_text(CODE)

    source = "\n".join(
        [*snippets, "[results.tools.map(t => t.path), schema.inputSchema.required, emails]"]
    )
    sent = {"script": source, "language": "javascript"}
    answer = scripts.boss("call_tool", chat_id="c1", tool_id="workspace:run_script", args=sent)

    found, required, emails = answer["result"]["value"]
    assert "gmail.messages.list" in found
    assert (required, emails) == (["query"], ["found from:acme"])
