"""``server.json`` of toolsets that are served over MCP, as the MCP registry accepts it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.formats import recognition
from covalt_git.formats.mcp_packages.served_toolset import server_json
from covalt_git.formats.table import TOOLSET
from covalt_git.json_values import json_schema
from covalt_git.models.toolset_manifest import ToolsetManifest
from tests.formats import laws

SCHEMA = yaml.safe_load(Path(__file__).with_name("registry_schema.yaml").read_text())
TOKEN = "ghp_" + "R7k2Xw9QzLm4Tn8VbY3cHs6DfGj1PaEuK5oM"
SLACK = "xoxb-290481736528-5819204736281-" + "".join(reversed(TOKEN[4:28]))
NAME, URL = "io.github.ada/data-lab", "https://tools.example.com/mcp"


def described(*, needs_token: bool = True, **facts: Any) -> Any:
    manifest = ToolsetManifest(**{"id": "lab", "name": "Lab", "version": "1.0.0"} | facts)
    return server_json(manifest, NAME, URL, needs_token=needs_token)


@pytest.mark.parametrize("needs_token", [True, False])
@pytest.mark.parametrize(
    "description", ["", "A lab.", "Long words. " * 20, "One.\n\nTwo", "ä" * 101]
)
def test_a_toolset_has_an_entry_that_the_registry_accepts(
    description: str, *, needs_token: bool
) -> None:
    server = described(needs_token=needs_token, description=description, name="L" * 120)

    assert json_schema.value_problems(SCHEMA, server) == []
    assert ("headers" in server["remotes"][0]) is needs_token


def test_the_description_is_the_beginning_of_that_of_the_toolset() -> None:
    assert described()["description"] == "Lab"
    assert described(description="One\nline.\n\nMore.")["description"] == "One line."
    shortened = described(description="x" * 101)["description"]
    assert shortened == "x" * 99 + "…"


def test_a_client_that_imports_it_connects_with_a_token() -> None:
    content = json.dumps(described()).encode()
    files = laws.converted(
        content, recognition.find_format("mcp-server-json"), TOOLSET, "server.json"
    ).files
    (server,) = yaml.safe_load(files["toolset.yaml"])["mcp_servers"]

    assert server["url"] == URL
    assert server["headers"] == {"Authorization": "Bearer ${DATA_LAB_TOKEN}"}


@pytest.mark.parametrize(
    "name",
    ["", "lab", "ada/lab", "io.github.ada/", "io.github.ada/a/b", "io..ada/lab", "-io.ada/lab", "io.ada/lab-",
     "io.ada/lab\n", "io.ada/" + "x" * 200],
)  # fmt: skip
def test_a_name_that_the_registry_does_not_accept_is_refused(name: str) -> None:
    manifest = ToolsetManifest(id="lab", name="Lab", version="1")
    with pytest.raises(CovaltError, match="not the name of a server"):
        server_json(manifest, name, URL, needs_token=True)


@pytest.mark.parametrize(
    "url",
    ["", "/mcp", "http://tools.example.com/mcp", "https://localhost/mcp", "https://[::1]/mcp", "https://[x/mcp",
     "https:///mcp", "https://ada:key@tools.example.com/mcp", "https://{host}/mcp", "https://x.example/m cp",
     "https://x.example/mcp#x", f"https://x.example/mcp?key={TOKEN}", "https://x.example/mcp?token=abcdef",
     "https://x.example/a%0ab", "https://localhost./mcp", "https://LOCALHOST/mcp", "https://0x7f000001/mcp",
     "https://[::ffff:127.0.0.1]/mcp", "https://169.254.169.254/mcp", "https://10.0.0.1/mcp", "https://nas/mcp",
     "https://nas.local/mcp", "https://x.example\u202e/mcp", "https://nas.lan/mcp", "https://x.corp/mcp",
     "https://x.home.arpa/mcp", "https://x.internal./mcp", "https://10.0.0.1.nip.io/mcp", "https://a-192-168-1-9.sslip.io/mcp",
     "https://7f000001.nip.io/mcp", "https://--1.sslip.io/mcp", "https://lvh.me/mcp", "https://a.localtest.me/mcp",
     "https://0x0a000001.nip.io/mcp", "https://10-0-0-1.0f1e2d.plex.direct/mcp", "https://ip-10-0-0-1.example.com/mcp",
     "https://x.1.192.168.0.9.example.com/mcp", "https://vcap.me/mcp", "https://x.traefik.me/mcp"],
)  # fmt: skip
def test_a_url_that_others_cannot_use_is_refused(url: str) -> None:
    manifest = ToolsetManifest(id="lab", name="Lab", version="1")
    with pytest.raises(CovaltError, match="URL") as refused:
        server_json(manifest, NAME, url, needs_token=True)

    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("version", ["latest", "^1.2.3", "~1.2", ">=1.2", "1.x", "1.*", "1 || 2"])
def test_a_version_that_names_several_is_refused(version: str) -> None:
    with pytest.raises(CovaltError, match="does not accept the version"):
        described(version=version)


@pytest.mark.parametrize(
    "facts",
    [
        {"description": "Uses zebra-quartz for mail"},
        {"description": f"{'x' * 200}\n\nzebra-quartz"},
        {"name": "zebra-quartz"},
        {"version": "1.0.0-zebra-quartz"},
        {"version": f"1.0.0-{TOKEN}"},
        {"url": "https://x.example/zebra-quartz/mcp"},
        {"url": "https://x.example/zebra%2Dquartz/mcp"},
        {"url": "https://x.example/zebra%25252Dquartz/mcp"},
        {"description": "zebra\\u002dquartz"},
        {"version": f"v{TOKEN}"},
        {"version": f"1.0.0-rc{SLACK}"},
        {"version": f"1.0.0+{SLACK}"},
        {"name": "a\u202eb"},
    ],
)
def test_a_value_of_a_secret_of_this_machine_or_a_hidden_character_is_refused(
    facts: dict[str, str],
) -> None:
    url = facts.pop("url", URL)
    manifest = ToolsetManifest(**{"id": "lab", "name": "Lab", "version": "1.0.0"} | facts)
    secrets = {"COVALT_SECRET_MAIL": "zebra-quartz", "SHORT": "Lab"}
    with pytest.raises(CovaltError, match=r"for server\.json has") as refused:
        server_json(manifest, NAME, url, needs_token=True, secrets=secrets)
    assert "zebra" not in str(refused.value)


@pytest.mark.parametrize(
    "host",
    ["8.8.8.8.nip.io", "tools-1-2-3-4.example.com", "0a000001.example.com", "5db8d822.nip.io"],
)
def test_a_public_name_with_numbers_is_accepted(host: str) -> None:
    manifest = ToolsetManifest(id="lab", name="Lab", version="1.0.0")
    assert server_json(manifest, NAME, f"https://{host}/mcp", needs_token=True)


def test_options_of_the_url_are_accepted() -> None:
    manifest = ToolsetManifest(id="lab", name="Lab", version="1.0.0")
    url = f"{URL}?names=underscore&mode=search"
    assert server_json(manifest, NAME, url, needs_token=True)["remotes"][0]["url"] == url


def test_a_credential_in_the_description_is_refused_and_not_printed() -> None:
    with pytest.raises(CovaltError, match="credential") as refused:
        described(description=f"Use {TOKEN}")

    assert TOKEN not in str(refused.value)
