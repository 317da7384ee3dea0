"""Errors of the built-in tools, as agents get them."""

from pathlib import Path
from typing import Any

import pytest

from covalt_git.project import Project
from tests.mcp_client import call, error_of


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("write_file", {"path": ".git/config", "content": ""}, "bad_path"),
        ("read_file", {"path": "a", "manifest": "nowhere"}, "invalid_request"),
        ("read_file", {"path": "bytes"}, "unreadable"),
        ("read_file", {"path": "large"}, "unreadable"),
        ("checkout", {"branch": "nowhere"}, "unknown_branch"),
    ],
)
def test_an_impossible_request_returns_its_error_code(
    shared: Path, chat_id: str, name: str, args: dict[str, Any], code: str
) -> None:
    with Project.open(shared).chats.open(chat_id) as chat:
        (chat.workspace / "bytes").write_bytes(b"\0\1")
        (chat.workspace / "large").write_text("x" * ((1 << 20) + 1))

    result = call(shared, f"workspace.{name}", args, chat=chat_id)

    assert result.is_error
    assert error_of(result)["error"] == code
