"""The how-to of docs/how-to/plugins.md, as it is written, with the provider and the API on this machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.calls.conftest import World
from tests.runtime.in_sandbox import needs_full
from tests.sign_ins.accounts import Accounts, sign_in

PAGE = Path(__file__).parents[2] / "docs/how-to/plugins.md"


def block(language: str, number: int = 0) -> str:
    """Return a code block of the page in a language, without its indentation."""
    blocks = re.findall(rf"( *)```{language}\n(.*?)\n *```", PAGE.read_text("utf-8"), re.DOTALL)
    indent, text = blocks[number]
    return "\n".join(line.removeprefix(indent) for line in text.splitlines())


@pytest.mark.requirement("toolshed-plugins.tool")
def test_the_plugin_of_the_how_to_lists_items_after_its_sign_in(
    shop: World, provider: Accounts
) -> None:
    needs_full()
    assert shop.cli(*block("sh").split()[1:]).returncode == 0
    manifest = (shop.root / "toolsets/my-service/toolset.yaml").read_text("utf-8")
    begin, end = manifest.index("\nauth:"), manifest.index("\ntools:")
    shop.write(
        "my-service/toolset.yaml",
        f"{manifest[:begin]}\n{block('yaml')}\n{manifest[end:]}".replace(
            "https://auth.example.com", provider.provider
        )
        .replace("[api.example.com]", f'["{provider.api}"]')
        .replace("my-client", "app"),
    )
    shop.edit("my-service/tools/items.py", "https://api.example.com", provider.api)
    grant, login = (line.split()[1:] for line in block("sh", 1).splitlines())
    needed = shop.call("my-service:items.list").call.error or ""
    assert shop.cli(*grant, "--no-terminal", "test").returncode == 0
    assert login[:2] == ["auth", "login"]
    sign_in(shop.root, login[2])
    # As the grant of a token has not the network of a Python tool, of which no manifest knows the hosts.
    shop.cli("grant", "add", "my-service", "network", provider.api, "--no-terminal", "test")

    listed = shop.call("my-service:items.list", limit=1).call

    assert needed.startswith("grant_needed: ")
    assert (listed.status, len(listed.result)) == ("success", 1), listed.error
    assert block("python") in (shop.root / "toolsets/my-service/tools/items.py").read_text("utf-8")


@pytest.mark.rest
def test_the_test_of_the_template_passes(shop: World) -> None:
    shop.cli("toolset", "new", "my-service", "--template", "plugin")
    folder = shop.root / "toolsets/my-service"

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "2 passed" in answer.stdout
