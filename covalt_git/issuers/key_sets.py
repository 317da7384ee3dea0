"""Public keys of issuers: from a file of the project, or from the one configured URL.

Keys of a URL are used for an hour.  A token with an unknown key makes us fetch them again, at most once in 30 seconds, so
that clients cannot make the server send many requests to the issuer.  No key comes from a token: ``jku``, ``jwk`` and ``x5u`` of
its header are never read.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach, origin_of
from covalt_git.http_client import ClientRequest, Deadline, HttpClient, HttpError
from covalt_git.json_values import canonical_json
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_config import MOST_KEY_BYTES, key_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import Issuer, ProjectConfig

_LOG = logging.getLogger(__name__)

FRESH_S = 3600.0
"""Time that fetched keys are used, in seconds."""

PAUSE_S = 30.0
"""Least time between two requests to an issuer, in seconds."""

_FETCH_S = 10.0
_OK = 200
_RSA_BITS = 2048


class KeysUnavailableError(CovaltError):
    """The keys of an issuer can be neither fetched nor read, so no token of it can be checked now."""

    code = "issuer_unavailable"
    http_status = 503


class Key(NamedTuple):
    """A public key and the only algorithm that it verifies."""

    kid: str | None
    algorithm: str
    verify: Callable[[bytes, bytes], bool]
    """Whether a signature, the second argument, is that of the first."""


class KeySets:
    """The keys of the issuers of one project, in one process; thread-safe.

    Args:
        root: The folder of the project.
        clock: Returns a time in seconds that never goes back.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._files: dict[str, tuple[Key, ...]] = {}
        self._fetched: dict[str, _FetchedKeys] = {}

    def find(
        self, config: ProjectConfig, issuer: Issuer, kid: str | None, algorithm: str
    ) -> list[Key]:
        """Return the keys that may have signed a token: of its algorithm, and with its ``kid`` if it has one.

        Raises:
            KeysUnavailableError: if the keys cannot be read or fetched.
        """
        if issuer.jwks_url is not None:
            return self._fetched_of(issuer.jwks_url).find(kid, algorithm)
        assert issuer.jwks_file is not None
        return _matching(self._of_file(config, issuer.jwks_file), kid, algorithm)

    def _of_file(self, config: ProjectConfig, name: str) -> tuple[Key, ...]:
        trusted = config.key_digests.get(name)
        if trusted is not None and trusted in self._files:
            return self._files[trusted]
        content = key_file(current_root(self._root), name)
        # The digest is the one that the user has trusted: a file that changed after that check has no keys.
        if content is None or canonical_json.digest_bytes(content) != trusted:
            raise KeysUnavailableError("the key file of the token's issuer cannot be read")
        keys = read_keys(content)
        with self._lock:
            if len(self._files) >= _MOST_FILES:
                self._files.clear()
            self._files[trusted] = keys
        return keys

    def _fetched_of(self, url: str) -> _FetchedKeys:
        with self._lock:
            if url not in self._fetched:
                self._fetched[url] = _FetchedKeys(url, self._clock)
            return self._fetched[url]


_MOST_FILES = 64


class _FetchedKeys:
    """The keys at one URL."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        self._url = url
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: tuple[Key, ...] | None = None
        self._fetched_at = self._requested_at = float("-inf")

    def find(self, kid: str | None, algorithm: str) -> list[Key]:
        keys = self._current()
        matching = _matching(keys or (), kid, algorithm)
        if not matching:
            keys = self._again(keys)
            matching = _matching(keys or (), kid, algorithm)
        if keys is None:
            raise KeysUnavailableError("the keys of the token's issuer cannot be fetched now")
        return matching

    def _current(self) -> tuple[Key, ...] | None:
        is_fresh = self._clock() - self._fetched_at < FRESH_S
        return self._keys if is_fresh else None

    def _again(self, earlier: tuple[Key, ...] | None) -> tuple[Key, ...] | None:
        """Return the keys after a new request, unless another thread has just made it, or it is too early."""
        # With keys, only the thread that fetches waits for an issuer that does not answer.
        if not self._lock.acquire(blocking=earlier is None):
            return earlier
        try:
            keys = self._current()
            if keys is not earlier and keys is not None:
                return keys
            time_s = self._clock()
            if time_s - self._requested_at < PAUSE_S:
                return keys
            self._requested_at = time_s
            fetched = _fetch(self._url)
            if fetched is not None:
                self._keys, self._fetched_at = fetched, time_s
            return self._current()
        finally:
            self._lock.release()


def _fetch(url: str) -> tuple[Key, ...] | None:
    """Return the keys at a URL; None if there is no key set.  Nothing but this address is asked: no redirect is followed."""
    origin, _ = origin_of(url)
    client = HttpClient(Reach.of(str(origin)), most=MOST_KEY_BYTES, redirects=0)
    request = ClientRequest("GET", url, (("accept", "application/jwk-set+json, application/json"),))
    try:
        answer = client.send(request, Deadline(_FETCH_S))
    except HttpError as error:
        _LOG.warning("the keys at %s cannot be fetched: %s", url, error.message)
        return None
    if answer.status != _OK:
        _LOG.warning("the keys at %s cannot be fetched: it answered %s", url, answer.status)
        return None
    keys = read_keys(answer.content)
    if not keys:
        _LOG.warning("the answer of %s has no usable key", url)
        return None
    return keys


def _matching(keys: tuple[Key, ...], kid: str | None, algorithm: str) -> list[Key]:
    same = [key for key in keys if key.algorithm == algorithm and kid in {None, key.kid}]
    # Without a kid, several keys would make the choice ours; the issuer has to say which key it is.
    return same if kid is not None or len(same) == 1 else []


def read_keys(content: bytes) -> tuple[Key, ...]:
    """Return the usable keys of a JWKS; one that is for something else, or that has a private part, is left out."""
    try:
        value = canonical_json.loads(content)
    except (canonical_json.NotJsonError, RecursionError):
        return ()
    entries = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return ()
    keys = [_key(entry) for entry in entries if isinstance(entry, dict)]
    return tuple(key for key in keys if key is not None)


def _key(entry: JsonObject) -> Key | None:
    from jwt import PyJWK, PyJWTError  # noqa: PLC0415 - few commands check tokens

    algorithm = algorithm_of(entry)
    kid, operations = entry.get("kid"), entry.get("key_ops")
    is_for_signatures = entry.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )
    if (
        algorithm is None
        or entry.get("alg", algorithm) != algorithm
        or not is_for_signatures
        or not isinstance(kid, str | None)
        or "d" in entry  # a private key that was published by mistake
    ):
        return None
    try:
        key = PyJWK(entry, algorithm)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if algorithm == "RS256" and key.key.key_size < _RSA_BITS:
        return None
    return Key(kid, algorithm, _verifier(key))


def _verifier(key: Any) -> Callable[[bytes, bytes], bool]:
    def verify(signed: bytes, signature: bytes) -> bool:
        return bool(key.Algorithm.verify(signed, key.key, signature))

    return verify


def algorithm_of(entry: JsonObject) -> str | None:
    """Return the algorithm of a JWK by its type alone, so that a token cannot choose another one for the key."""
    match entry.get("kty"), entry.get("crv"):
        case "RSA", _:
            return "RS256"
        case "EC", "P-256":
            return "ES256"
        case "OKP", "Ed25519":
            return "EdDSA"
    return None
