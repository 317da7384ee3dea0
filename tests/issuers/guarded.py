"""A project whose tools require tokens, and its API for the holder of one."""

import json
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from tests.api_client import HOME, Api
from tests.issuers import tokens
from tests.issuers.tokens import ARGS, TOOL, WHOLE

CODE = """\
from pathlib import Path


def echo(workspace: Path, text: str) -> str:
    file = workspace / "echoes.txt"
    file.write_text((file.read_text() if file.exists() else "") + text + "\\n")
    return text


def plain(text: str) -> str:
    return text
"""
MANIFEST = """\
id: guarded
name: Guarded
version: "1"
tools:
  - {{id: echo, entrypoint: "tools.echo:echo", security: {{{security}}}{more}}}
  - {{id: plain, entrypoint: "tools.echo:plain"}}
"""


def guard(root: Path, security: str = WHOLE, more: str = "", **options: Any) -> None:
    """Write a toolset whose tool ``echo`` has a security block, and the issuer into ``covalt.yaml``."""
    folder = root / "toolsets/guarded"
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    (folder / "tools/echo.py").write_text(CODE, encoding="utf-8")
    manifest = MANIFEST.format(security=security, more=more)
    (folder / "toolset.yaml").write_text(manifest, encoding="utf-8")
    tokens.list_issuer(root, **options)


def tell(api: Api, token: str, operation: str, /, **body: Any) -> TestResponse:
    """Ask the API with a token, whatever comes of it."""
    headers = {"Authorization": f"Bearer {token}"}
    return api.client().post(f"/api/{operation}", base_url=HOME, json=body, headers=headers)


def get(api: Api, token: str, path: str) -> TestResponse:
    headers = {"Authorization": f"Bearer {token}"}
    return api.client().get(path, base_url=HOME, headers=headers)


def make_chat(api: Api, token: str, chat_id: str = "own") -> str:
    assert tell(api, token, "create_chat", chat_id=chat_id, title="A chat").status_code == 200
    return chat_id


def call(
    api: Api, token: str, chat_id: str = "own", tool_id: str = TOOL, **body: Any
) -> TestResponse:
    body = {"args": ARGS, **body}
    return tell(api, token, "call_tool", chat_id=chat_id, tool_id=tool_id, **body)


def code_of(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, json.loads(answer.get_data())["error"]
