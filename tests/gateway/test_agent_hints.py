"""Hints of errors as agents get them."""

import pytest

from covalt_git.gateway.agent_hints import for_agent

HINTS = {
    "list them with `covalt-git chat branch c1`": "list them with workspace_log",
    "covalt-git chat branch c1 lists the others": "workspace_log lists the others",
    "go there: covalt-git chat branch c1 NAME": "go there: workspace_branch",
    "covalt-git chat branch new c1 x --from 1a2b": "workspace_branch",
    "covalt-git chat branch delete c1 x": "for the user: covalt-git chat branch delete c1 x",
    "did you mean 'c1'? list them with `covalt-git chat list`": "did you mean 'c1'?",
    "covalt-git grant add demo process srv": "for the user: covalt-git grant add demo process srv",
    "covalt-git tool schema demo:add": "",
    "covalt-git tool describe demo:add": "",
    "choose another name": "choose another name",
    "covalt-git trust\ncovalt-git grant add demo secret K": (
        "for the user: covalt-git trust\nfor the user: covalt-git grant add demo secret K"
    ),
    "choose another name\nlist them with `covalt-git chat list`\ncovalt-git trust": (
        "choose another name\nfor the user: covalt-git trust"
    ),
}


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_names_the_tool_that_replaces_a_command(hint: str) -> None:
    assert for_agent(hint, "underscore") == HINTS[hint]
