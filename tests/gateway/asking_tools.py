"""A toolset whose tools ask, and what clients answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types

from tests.mcp_client import add_toolset, make_project

MANIFEST = """\
id: quiz
name: Quiz
version: "1"
tools:
  - {id: name, entrypoint: tools.quiz:name}
  - {id: rounds, entrypoint: tools.quiz:rounds}
  - {id: several, entrypoint: tools.quiz:several}
  - {id: page, entrypoint: tools.quiz:page}
  - {id: can, entrypoint: tools.quiz:can}
  - {id: short, entrypoint: tools.quiz:name, limits: {answer_s: 0.5}}
"""
TOOLS = '''\
from dataclasses import dataclass
from pathlib import Path

from covalt_toolset import Form, Roots, Sampling, get_context


@dataclass
class Person:
    name: str
    age: int = 1


def name(workspace: Path, ask: str = "What is your name?") -> str:
    """Ask for a name."""
    with (workspace / "runs").open("a") as file:
        file.write("x")
    answer = get_context().elicit(ask, Person, key="user_name")
    return f"Hello, {answer.content.name}!" if answer.accepted else answer.action


def rounds() -> list[str]:
    """Ask twice, the second time by what the first answer was."""
    context = get_context()
    first = context.elicit("Who?", Person, key="who").content.name
    context.progress(1, 2, first)
    return [first, context.elicit(f"Whom does {first} know?", Person, key="who").content.name]


def several() -> list[str]:
    """Ask everything at once."""
    found = get_context().ask(
        {"who": Form("Who?", Person), "say": Sampling("Say hi", 5), "where": Roots()}
    )
    return [found["who"].content.name, found["say"].text, found["where"][0].uri]


def page() -> str:
    """Lead to a page."""
    return get_context().elicit_url("Sign in", "https://example.com/in").action


def can() -> list[str]:
    """Tell who can be asked."""
    return [kind for kind in ("form", "url", "sampling", "roots") if get_context().can_ask(kind)]
'''

ANSWERS: dict[str, Any] = {
    "user_name": {"action": "accept", "content": {"name": "Ada"}},
    "who": {"action": "accept", "content": {"name": "Ada"}},
    "say": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
    "where": {"roots": [{"uri": "file:///here"}]},
}


def make_asking_project(root: Path, *, roles: str = "") -> Path:
    make_project(root, roles=roles)
    add_toolset(root, "quiz", MANIFEST, TOOLS)
    return root


class Person:
    """Somebody at a client; ``asked`` has what they were shown."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self.asked: list[Any] = []
        self._answers = list(answers)

    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self._elicit,
            "sampling_callback": self._sample,
            "list_roots_callback": self._roots,
        }

    async def _elicit(self, _: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        if len(self._answers) > 1:
            return self._answers.pop(0)
        return self._answers[0]

    async def _sample(self, _: Any, params: Any) -> types.CreateMessageResult:
        self.asked.append(params)
        said = types.TextContent(text="hi")
        return types.CreateMessageResult(role="assistant", content=said, model="m")

    async def _roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///here")])


def accept(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)
