"""Entries of auth: what a toolset may declare, and what is said about the rest."""

import pytest

from covalt_git.models.auth_entries import providers
from covalt_git.toolsets.project_files import read_project
from tests.calls.conftest import World

WRONG = {
    "type: oauth2": "nothing says where to sign in",
    "type: oauth2, provider: gitlab": "there is no provider 'gitlab'",
    "type: oauth2, authorize_url: https://a.example/": "has both 'authorize_url' and 'token_url'",
    "type: oauth2, issuer: https://a.example": "nothing says which hosts may get the token",
    "type: oauth2, provider: github, client_secret: abcdefgh12345678": "'client_secret' is not a reference",
    "type: oauth2, provider: github, client_id: 'x${KEY}'": "'client_id' is public",
    "type: oauth2, provider: github, token_url: https://a.example/": "with a provider has no 'token_url'",
    "type: oauth2, provider: google, revoke_url: https://a.example/": "with a provider has no 'revoke_url'",
    "type: oauth2, issuer: 'https://${KEY}.example', hosts: [a.example]": "a URL without references",
    "type: bearer": "the type 'bearer' needs 'token' with a reference",
    "type: bearer, token: 'Bearer ${KEY}'": "the type 'bearer' needs 'token' with a reference",
    "type: basic, token: '${env:KEY}'": "the type 'basic' needs 'token' with a reference",
    "type: api_key, token: '${KEY}', scopes: [read]": "only a sign-in has 'scopes'",
}


def problems_of(world: World) -> str:
    """Return what ``covalt-git validate`` prints about the toolset."""
    return "".join(f"{problem}\n" for problem in read_project(world.root).problems)


@pytest.mark.parametrize(("entry", "message"), WRONG.items())
def test_a_wrong_entry_is_a_problem_at_its_place(world: World, entry: str, message: str) -> None:
    world.write(
        "it/toolset.yaml",
        f'id: it\nname: It\nversion: "1"\nsecrets: [KEY]\nauth:\n  - {{id: it, {entry}}}\n',
    )

    printed = problems_of(world)

    assert "toolsets/it/toolset.yaml:6:" in printed
    assert message in printed


@pytest.mark.parametrize(
    "server",
    [
        "command: npx, args: ['--token', '${auth:it}']",
        "command: npx, env: {TOKEN: '${auth:it}'}",
        "url: 'https://api.github.com/?token=${auth:it}'",
    ],
)
def test_a_sign_in_is_sent_to_a_server_in_headers_only(world: World, server: str) -> None:
    world.write(
        "it/toolset.yaml",
        'id: it\nname: It\nversion: "1"\nauth: [{id: it, type: oauth2, provider: github}]\n'
        f"mcp_servers:\n  - {{id: far, {server}}}\n",
    )

    assert "a sign-in is not sent in" in problems_of(world)


def test_a_source_of_the_type_plugin_names_the_template(world: World) -> None:
    world.write(
        "it/toolset.yaml", 'id: it\nname: It\nversion: "1"\nsources: [{id: it, type: plugin}]\n'
    )

    printed = problems_of(world)

    assert "a plugin is no source" in printed
    assert "covalt-git toolset new my-service --template plugin" in printed


def test_a_reference_to_an_entry_that_does_not_exist_proposes_the_nearest(world: World) -> None:
    world.write(
        "it/toolset.yaml",
        'id: it\nname: It\nversion: "1"\nauth: [{id: forge, type: oauth2, provider: github}]\n'
        "tools:\n"
        '  - {id: get, http: {url: "https://api.github.com/", headers: {A: "${auth:froge}"}}}\n',
    )

    printed = problems_of(world)

    assert "auth has no entry 'froge'" in printed
    assert "did you mean ${auth:forge}?" in printed


@pytest.mark.parametrize("name", providers())
def test_each_known_provider_has_https_urls_hosts_a_source_and_a_date(name: str) -> None:
    provider = providers()[name]

    urls = [provider.authorize_url, provider.token_url, provider.source, provider.revoke_url or ""]
    assert all(url.startswith("https://") for url in urls if url)
    assert provider.hosts
    assert provider.date.startswith("20")
