"""Keys of issuers: which are used, when they are fetched, and from where."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jwt.algorithms import OKPAlgorithm

from covalt_git.errors import CovaltError
from covalt_git.issuers import Verifier
from covalt_git.issuers.key_sets import FRESH_S, PAUSE_S, KeySets, KeysUnavailableError, read_keys
from covalt_git.models.project_config import Issuer, ProjectConfig, RoleConfig
from tests.issuers import tokens
from tests.issuers.tokens import AUDIENCE, ISSUER, jwk, jwks


@dataclass
class Provider:
    """A server of keys, and a clock."""

    content: bytes = field(default_factory=jwks)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    now: float = 1000.0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    @property
    def config(self) -> ProjectConfig:
        issuer = Issuer(issuer=ISSUER, audience=AUDIENCE, jwks_url=self.url, role="caller")
        return ProjectConfig(version=1, roles={"caller": RoleConfig()}, issuers=(issuer,))


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.requests.append(self.path)
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(made.content)))
            self.end_headers()
            self.wfile.write(made.content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def verifier(provider: Provider, tmp_path: Path) -> Verifier:
    return Verifier(tmp_path, keys=KeySets(tmp_path, clock=lambda: provider.now))


def code(verifier: Verifier, provider: Provider, token: str) -> str:
    try:
        verifier.verify(provider.config, token)
    except CovaltError as error:
        return error.code
    return "-"


def test_keys_are_fetched_once_an_hour(verifier: Verifier, provider: Provider) -> None:
    for _ in range(5):
        assert code(verifier, provider, tokens.token()) == "-"
    assert provider.requests == ["/keys"]
    provider.now += FRESH_S - 1
    assert code(verifier, provider, tokens.token()) == "-"
    assert len(provider.requests) == 1
    # After an hour, keys that the issuer has withdrawn are not used any more.
    provider.now += 2
    provider.content = jwks(jwk("RS256"))
    assert code(verifier, provider, tokens.token()) == "invalid_token"
    assert code(verifier, provider, tokens.token("RS256")) == "-"
    assert len(provider.requests) == 2


def test_an_unknown_key_fetches_them_again_at_most_once_in_30_seconds(
    verifier: Verifier, provider: Provider
) -> None:
    assert code(verifier, provider, tokens.token()) == "-"
    provider.content = jwks(jwk("ES256 rotated", kid="new"))
    rotated = tokens.Parts(
        json.dumps({"alg": "ES256", "kid": "new"}), json.dumps(tokens.claims()), "ES256 rotated"
    ).text
    for _ in range(5):
        assert code(verifier, provider, rotated) == "invalid_token"
    assert len(provider.requests) == 1
    provider.now += PAUSE_S
    assert code(verifier, provider, rotated) == "-"
    assert code(verifier, provider, tokens.token()) == "invalid_token"
    for _ in range(5):
        assert code(verifier, provider, tokens.token()) == "invalid_token"
    assert len(provider.requests) == 2


def test_many_threads_fetch_the_keys_once(verifier: Verifier, provider: Provider) -> None:
    codes: list[str] = []
    threads = [
        threading.Thread(target=lambda: codes.append(code(verifier, provider, tokens.token())))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == ["-"] * 16
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("status", "content", "headers"),
    [
        (500, jwks(), {}),
        (404, jwks(), {}),
        (302, b"", {"Location": "/other"}),
        (200, b"<html>", {}),
        (200, b"{}", {}),
        (200, b'{"keys": []}', {}),
        (200, b'{"keys": {}}', {}),
        (200, b"[1]", {}),
        (200, jwks() + b" " * (257 << 10), {}),
        (200, jwks().replace(b"{", b'{"keys": [], ', 1), {}),
    ],
)
def test_an_answer_that_is_no_key_set_is_no_reason_to_accept_or_to_ask_again(
    verifier: Verifier, provider: Provider, status: int, content: bytes, headers: dict[str, str]
) -> None:
    provider.status, provider.content, provider.headers = status, content, headers
    for _ in range(3):
        assert code(verifier, provider, tokens.token()) == "issuer_unavailable"
    assert provider.requests == ["/keys"]
    # It works again as soon as the issuer does, after the pause.
    provider.status, provider.content, provider.headers = 200, jwks(), {}
    provider.now += PAUSE_S
    assert code(verifier, provider, tokens.token()) == "-"


def test_a_failed_request_leaves_the_keys_of_the_last_hour(
    verifier: Verifier, provider: Provider
) -> None:
    assert code(verifier, provider, tokens.token()) == "-"
    provider.status, provider.now = 500, provider.now + PAUSE_S
    unknown = tokens.Parts('{"alg": "ES256", "kid": "x"}', json.dumps(tokens.claims())).text
    assert code(verifier, provider, unknown) == "invalid_token"
    assert code(verifier, provider, tokens.token()) == "-"


UNSIGNED = tokens.Parts('{"alg": "HS256", "kid": "x"}', json.dumps(tokens.claims())).text
"""A token of an algorithm that no key can have."""


def test_a_token_of_another_issuer_makes_no_request(verifier: Verifier, provider: Provider) -> None:
    for token in (
        tokens.token(iss="https://evil.example.com"),
        "a.b.c",
        tokens.token() + ".",
        UNSIGNED,
    ):
        assert code(verifier, provider, token) == "invalid_token"
    assert provider.requests == []


_PRIVATE: Any = tokens.key("EdDSA")

UNUSABLE: tuple[dict[str, Any], ...] = (
    jwk("RS256", alg="RS512"),
    jwk("RS256", alg="HS256"),
    jwk("RS256", alg="none"),
    jwk("RS256", use="enc"),
    jwk("RS256", key_ops=["encrypt"]),
    jwk("RS256", key_ops="verify"),
    jwk("RS256", kid=7),
    {**OKPAlgorithm.to_jwk(_PRIVATE, as_dict=True), "kid": "EdDSA"},
    jwk("RS256", n="AQAB"),
    jwk("RS256", n=7),
    jwk("RS1024"),
    jwk("ES256", crv="P-384"),
    jwk("ES256", x="AAAA"),
    jwk("ES384"),
    jwk("EdDSA", crv="Ed448"),
    {"kty": "oct", "k": "c2VjcmV0", "kid": "ES256", "alg": "HS256"},
    {"kty": "RSA"},
    {"kty": ["RSA"]},
    {},
)


@pytest.mark.parametrize("number", range(len(UNUSABLE)))
def test_only_public_keys_for_signatures_are_used(number: int) -> None:
    assert read_keys(jwks(UNUSABLE[number])) == ()
    signing = jwk("RS256", alg="RS256", use="sig", key_ops=["verify"])
    assert [key.kid for key in read_keys(jwks(UNUSABLE[number], signing))] == ["RS256"]


def test_a_token_without_kid_needs_a_single_key_of_its_algorithm(
    verifier: Verifier, provider: Provider
) -> None:
    token = tokens.Parts('{"alg": "ES256"}', json.dumps(tokens.claims())).text
    provider.content = jwks(jwk("ES256"), jwk("RS256"))
    assert code(verifier, provider, token) == "-"
    provider.content = jwks(jwk("ES256"), jwk("ES256 of another"))
    provider.now += FRESH_S
    assert code(verifier, provider, token) == "invalid_token"


def test_a_key_file_that_differs_from_the_trusted_one_has_no_keys(tmp_path: Path) -> None:
    tokens.list_issuer(tmp_path)
    issuer = Issuer(issuer=ISSUER, audience=AUDIENCE, jwks_file="keys/id.json", role="caller")
    config = ProjectConfig(version=1, roles={"caller": RoleConfig()}, issuers=(issuer,))
    trusted = config.with_key_digests({"keys/id.json": f"sha256:{'0' * 64}"})
    for untrusted in (config, trusted):
        with pytest.raises(KeysUnavailableError):
            Verifier(tmp_path).verify(untrusted, tokens.token())


@pytest.mark.parametrize(
    "url", ["http://id.example.com/keys", "ftp://id.example.com/", "https://", "http://10.0.0.1/"]
)
def test_keys_of_another_machine_come_over_https(url: str) -> None:
    with pytest.raises(ValueError, match=r"jwks_url|https"):
        Issuer(issuer=ISSUER, audience=AUDIENCE, jwks_url=url, role="caller")


@pytest.mark.parametrize(
    "issuer", ["local", "client:x", "agent:x", "https://a|b", "https://a b", "", "https://a\n"]
)
def test_the_id_of_a_holder_is_neither_that_of_the_user_nor_of_an_agent(issuer: str) -> None:
    with pytest.raises(ValueError, match="issuer"):
        Issuer(issuer=issuer, audience=AUDIENCE, jwks_file="keys/id.json", role="caller")
