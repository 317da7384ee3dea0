"""The provider of ``fixtures/servers/with_accounts.py``, its API, and a person who signs in there."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from covalt_git.connections.token_store import StoredLogin, stored_logins
from covalt_git.operations.context import Context
from covalt_git.operations.credentials import logins
from covalt_git.project import Project
from tests.connections.signing_in import serving, visit

SECRET = "client-secret/+7f"

MANIFEST = """\
id: shop
name: Shop
version: "1"
auth:
  - id: shop
    type: oauth2
    authorize_url: {provider}/authorize
    token_url: {provider}/token
    revoke_url: {provider}/revoke
    scopes: [read]
    client_id: app
    hosts: ["{api}"]
tools:
  - id: list
    http: {{method: GET, url: "{api}/items", headers: {{Authorization: "Bearer ${{auth:shop}}"}}}}
    annotations: {{read_only: true}}
  - {{id: create, entrypoint: "tools.items:create"}}
"""
CODE = '''\
import json
import os
import urllib.request

from covalt_toolset import get_context


def create(name: str, url: str) -> dict:
    """Create an item."""
    context = get_context()
    token = context.auth.get_token("shop")
    print("printed", token)
    context.log(f"logged {token}")
    context.progress(1, 2, f"progress {token}")
    assert not any(token in value for value in os.environ.values())
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"name": name}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/items", body, headers)) as answer:
        return {"item": json.load(answer), "token": token, "reversed": token[::-1], token: 1}
'''


@dataclass
class Accounts:
    """A provider, and the API that needs its tokens."""

    api_port: int
    port: int

    @property
    def provider(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    def set(self, *, wrong: str = "", expires: int = 3600) -> None:
        """Have something wrong from now on, and tokens last so many seconds."""
        visit(f"{self.provider}/set?wrong={wrong}&expires={expires}")

    def end(self, what: str) -> None:
        """Take back all tokens of a kind: access or refresh."""
        visit(f"{self.provider}/end?what={what}")

    def log(self) -> list[str]:
        """Return what was asked of the provider."""
        return list(json.loads(visit(f"{self.provider}/log")))

    def seen(self) -> list[str]:
        """Return the Authorization headers that the API got."""
        return list(json.loads(visit(f"{self.api}/seen")))

    def manifest(self) -> str:
        return MANIFEST.format(provider=self.provider, api=self.api)


@contextmanager
def accounts() -> Iterator[Accounts]:
    with serving("with_accounts.py", SECRET=SECRET) as ports:
        yield Accounts(*ports)


def sign_in(root: Path, server: str = "shop", **fields: object) -> logins.LoginRow:
    """Sign in as a person does whose browser follows where it is led."""

    def open_browser(line: str) -> None:
        # In another thread, as a browser is another program: the redirect is answered meanwhile.
        if "/authorize?" in line:
            threading.Thread(target=visit, args=(line.strip(),)).start()

    with Context(root, lambda: Project.open(root), report=open_browser) as context:
        return logins.log_in(context, server=server, browser=False, **fields)


def stored(root: Path) -> StoredLogin:
    ((_, login),) = stored_logins(root)
    return login
