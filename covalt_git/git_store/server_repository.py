"""Repository on a git server: its refs, fetches from it, and pushes with the expected old value of each ref.

Stock git is the client, because it has every transport (https, ssh, files), the user's credential helpers and proxies.
It runs on the node's copy of the repository.  Small requests over http and https without any of that are made by this
process (:mod:`.direct_requests`), which costs a fraction.

A server refuses to delete the branch that its HEAD names.  So such a branch is moved to :data:`_NO_COMMIT` instead, a commit
without files that is the same everywhere, and counts as missing.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from covalt_git.errors import CovaltError
from covalt_git.git_store import git_http
from covalt_git.git_store.git_http import GitHttp, UnsuitedError
from covalt_git.git_store.objects import CommitObject, encode_commit, is_object_id, object_id
from covalt_git.system import programs
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from types import ModuleType

    from covalt_git.git_store.store import GitStore

MOST_S = 600.0
"""Time after which git is stopped, in seconds."""

_OPTIONS = (
    # Packs, not loose objects: each costs a file.
    *("-c", "fetch.unpackLimit=1", "-c", "fetch.fsckObjects=true", "-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false", "-c", "push.gpgSign=false", "-c", "push.followTags=false"),
    *("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"),
)
_LONGEST_REASON = 500
_BRANCHES = "refs/heads/"
_PREFIXES = (_BRANCHES, "refs/covalt/")
_REJECTED = re.compile(r"^!\t[^\t]*:([^\t]+)\t(.*)$", re.MULTILINE)
_NO_STATUS = "remote failed to report status"
_GONE = "couldn't find remote ref"
_ASKS_FOR_LOGIN = re.compile("could not read (?:Username|Password)|Authentication failed")
_NO_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_NOBODY = "covalt-git <covalt-git@covalt.invalid>"
_NO_COMMIT = {
    name: CommitObject(
        tree=tree, parents=(), author=_NOBODY, committer=_NOBODY, time=0, message="deleted\n"
    )
    for name, tree in _NO_TREE.items()
}
"""The commit to which a branch moves that the server does not delete, by object format."""

_NO_COMMITS = {
    object_id(b"commit", encode_commit(commit, name), name) for name, commit in _NO_COMMIT.items()
}


_SETTINGS: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
"""Settings of git by the folders that they depend on, and when they were read."""


class ServerError(CovaltError):
    """The git server cannot be reached, or does not answer as a git server."""

    code = "storage_unavailable"
    http_status = 503


class RefGoneError(ServerError):
    """A ref does not exist any more that the server listed a moment ago."""


class PushRefusedError(CovaltError):
    """The git server, or git, refused a push, and no ref has moved; ``reasons`` has the reason for each ref."""

    code = "storage_refused"
    http_status = 503

    def __init__(self, url: str, reasons: Mapping[str, str]) -> None:
        # The others failed because of this one.
        own = {ref: why for ref, why in reasons.items() if "atomic push" not in why}
        first = next(iter((own or reasons).items()), ("it", "the push"))
        super().__init__(
            f"the git server of {url} refused to move {first[0]}: {first[1]}",
            hint="covalt-git storage check",
        )
        self.reasons = dict(reasons)


class Move(NamedTuple):
    """A ref that a push moves; ``old`` is None for a new ref, ``new`` for a deleted one."""

    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class ServerRepository:
    """One repository on a git server; ``password`` is of ``username``, for https."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    hint: str = "covalt-git storage check"
    most_bytes: int | None = None
    """The size of the largest file that git may write, which limits the packs that are fetched."""

    def refs(self) -> dict[str, str]:
        """Return the branches and the refs below ``refs/covalt/``, with their object ids.

        Servers add refs of their own, such as ``refs/pull/``, which no chat has.

        Raises:
            ServerError: if the repository does not exist, or the server cannot be reached.
        """
        refs, _ = self._refs()
        return {
            ref: oid
            for ref, oid in refs.items()
            if ref.startswith(_PREFIXES) and oid not in _NO_COMMITS
        }

    def _refs(self) -> tuple[dict[str, str], str | None]:
        """Return all refs, and the branch in HEAD."""
        with contextlib.suppress(UnsuitedError):
            offer = self._directly("ls-remote", lambda requests, at: requests.refs(at))
            return offer.refs, offer.head
        output = self._git("ls-remote", "--symref", "--", self.url)
        refs: dict[str, str] = {}
        head = None
        for line in output.splitlines():
            oid, _, ref = line.partition("\t")
            if oid.startswith("ref: ") and ref == "HEAD":
                head = oid.removeprefix("ref: ")
            elif ref.startswith("refs/") and not ref.endswith("^{}"):
                if not (is_object_id(oid) and git_http.is_ref(ref)):
                    raise ServerError(
                        f"the git server of {self.url} lists an invalid ref", hint=self.hint
                    )
                refs[ref] = oid
        return refs, head

    def find(self, name: str) -> dict[str, str]:
        """Return the refs that end with a name, with their object ids; for an annotated tag, that of its commit.

        Raises:
            ServerError: if the repository does not exist, or the server cannot be reached.
        """
        refs: dict[str, str] = {}
        for line in self._git("ls-remote", "--", self.url, name, f"{name}^{{}}").splitlines():
            oid, _, ref = line.partition("\t")
            # The line of the commit follows that of the tag.
            refs[ref.removesuffix("^{}")] = oid
        return refs

    def fetch_objects(self, store: GitStore, refs: Mapping[str, str]) -> None:
        """Fetch the objects that refs had a moment ago, by their object ids if possible; no ref of the store moves.

        Raises:
            RefGoneError: if a ref does not exist any more.
            ServerError: if the server cannot be reached.
        """
        if not refs:
            return
        with contextlib.suppress(UnsuitedError):
            self._directly("fetch", lambda requests, at: requests.fetch(at, store, refs.values()))
            return
        self.fetch(store, refs)

    def fetch(self, store: GitStore, refs: Iterable[str]) -> None:
        """Fetch the objects of refs into a store; no ref of the store moves.

        Raises:
            RefGoneError: if a ref does not exist any more.
            ServerError: if the server cannot be reached.
        """
        names = "".join(f"{ref}\n" for ref in refs)
        if names:
            options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-show-forced-updates")
            self._git("fetch", *options, "--stdin", "--", self.url, store=store, text=names)
            store.refresh()

    def push(
        self, store: GitStore, moves: Mapping[str, Move], *, known: Collection[str] = ()
    ) -> None:
        """Move refs of the server, all or none of them; the objects come from the store.

        ``known`` are objects that the server has, with all that they reach.

        Raises:
            PushRefusedError: if a ref is not at its old value, or the server refuses one; nothing has moved.
            ServerError: if the outcome is not known.
        """
        if not moves:
            return
        store.flush()
        refs: dict[str, str] = {}
        head = None
        # Only branches can be at such a commit; the lookup costs a request.
        if any(ref.startswith(_BRANCHES) and None in move for ref, move in moves.items()):
            refs, head = self._refs()
        every: dict[str, Move] = {}
        for ref, (old, new) in moves.items():
            # A branch that counts as missing is there for the server.
            expected = refs.get(ref) if old is None and refs.get(ref) in _NO_COMMITS else old
            target = _write_no_commit(store) if new is None and ref == head else new
            every[ref] = Move(expected, target)
        with contextlib.suppress(UnsuitedError):
            refused = self._directly(
                "push", lambda requests, at: requests.push(at, store, every, known)
            )
            if refused:
                reasons = {ref: self._shown(why) for ref, why in refused.items()}
                raise PushRefusedError(self.url, reasons)
            return
        options = [f"--force-with-lease={ref}:{move.old or ''}" for ref, move in every.items()]
        specs = [f"{move.new or ''}:{ref}" for ref, move in every.items()]
        # Without --no-verify, a hook of the user's templates would run here.
        fixed = ("--atomic", "--porcelain", "--no-verify", "--no-thin", "--no-recurse-submodules")
        self._git("push", *fixed, *options, "--", self.url, *specs, store=store)

    def _directly(self, command: str, request: Callable[[ModuleType, GitHttp], Any]) -> Any:
        """Make a request by this process.

        Raises:
            UnsuitedError: if stock git has to make it.
            ServerError: if the server cannot be reached, or the outcome of a push is not known.
        """
        if self.most_bytes is not None:
            raise UnsuitedError
        from covalt_git.git_store import direct_requests  # noqa: PLC0415 - of few projects

        if not self.url.startswith(("http:", "https:")):
            raise UnsuitedError
        login = () if self.password is None else (("Authorization", self._login()),)
        place = git_http.place_of(self.url, _own_settings())
        try:
            return request(direct_requests, GitHttp(self.url, place, login, MOST_S))
        except (OSError, http.client.HTTPException) as error:
            why = self._shown(str(error) or type(error).__name__)
            raise ServerError(
                f"git {command} of {self.url} failed: {why}", hint=self.hint
            ) from None

    def _login(self) -> str:
        """Return the header with the password."""
        pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return f"Basic {pair}"

    def _shown(self, text: str) -> str:
        """Return a text of the server for a message, without the password: a server can send it back."""
        if self.password:
            pair = self._login().removeprefix("Basic ")
            # http.client decodes headers so.
            header = self.password.encode().decode("latin-1")
            for secret in (pair, self.password, header, repr(self.password)[1:-1]):
                text = text.replace(secret, "***")
        return display.shorten(display.in_line(text), _LONGEST_REASON)

    def create_locally(self, argv: Iterable[str]) -> None:
        """Run the command that creates this repository on its server.

        Raises:
            ServerError: if the command fails.
        """
        command = [*argv]
        try:
            outcome = programs.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MOST_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerError(
                f"the command storage.create cannot run: {error}", hint="edit covalt.yaml"
            ) from None
        if outcome.returncode:
            raise ServerError(
                f"the command storage.create ended with exit code {outcome.returncode}:"
                f" {_last_line(outcome.stderr)}",
                hint="edit storage.create in covalt.yaml",
            )

    def _git(
        self, command: str, *arguments: str, store: GitStore | None = None, text: str = ""
    ) -> str:
        if programs.find("git") is None:
            raise ServerError(
                "a git server needs the program git",
                hint="install git, for example: apt install git",
            )
        place = () if store is None else (f"--git-dir={store.path}",)
        # With version 2 of git's protocol, the list of refs needs a second request.
        version = ("-c", f"protocol.version={0 if command == 'ls-remote' else 2}")
        argv = ["git", *place, *_OPTIONS, *version, command, *arguments]
        if self.most_bytes is not None:
            # By the kernel, as git has no option for it; the unit is 512 bytes (POSIX, `ulimit -f`).
            argv = ["sh", "-c", 'ulimit -f "$0" && exec "$@"', str(self.most_bytes >> 9), *argv]
        try:
            outcome = programs.run(
                argv,
                env=self._environment(),
                input=text,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MOST_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerError(f"git {command} of {self.url} failed: {error}") from None
        if not outcome.returncode:
            return str(outcome.stdout)
        rejected = _REJECTED.findall(outcome.stdout)
        reasons = {ref: self._shown(why) for ref, why in rejected}
        if any(_NO_STATUS in why for why in reasons.values()):
            raise ServerError(
                f"git {command} of {self.url} failed: the server did not report the status of each ref",
                hint=self.hint,
            )
        if reasons:
            raise PushRefusedError(self.url, reasons)
        if "does not support --atomic" in outcome.stderr:
            raise PushRefusedError(self.url, {"the refs": "it does not support atomic pushes"})
        why = self._shown(_last_line(outcome.stderr))
        if _ASKS_FOR_LOGIN.search(why):
            # A server that refuses a login asks for another one.
            why = (
                "the server asks for a user name and a password"
                if self.password is None
                else f"the server refused the password of {self.username!r}"
            )
        kind = RefGoneError if _GONE in why else ServerError
        raise kind(f"git {command} of {self.url} failed: {why}", hint=self.hint)

    def _environment(self) -> dict[str, str]:
        config = {
            # A redirect could lead the password, or a push, to another server.
            "http.followRedirects": "false",
            "core.hooksPath": os.devnull,
        }
        if self.password is not None:
            # In the environment, because other users of the machine can read arguments.
            parts = urlsplit(self.url)
            scope = f"{parts.scheme}://{parts.netloc}/"
            config[f"http.{scope}.extraHeader"] = f"Authorization: {self._login()}"
        numbered = dict(enumerate(config.items()))
        return _own_environment() | {
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
            "GIT_CONFIG_COUNT": str(len(numbered)),
            **{f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in numbered.items()},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered.items()},
        }


def _write_no_commit(store: GitStore) -> str:
    store.write_tree([])
    oid = store.write_commit(_NO_COMMIT[store.object_format])
    store.flush()
    return oid


def _own_environment() -> dict[str, str]:
    """Return the environment without the variables of a git that started us, such as GIT_DIR in a hook, which git would use."""
    return {name: value for name, value in programs.environment().items() if not _is_of_git(name)}


def _own_settings() -> dict[str, str]:
    """Return the user's settings of git by their names, in lower case; they are read once a minute.

    Raises:
        UnsuitedError: if they cannot be read.
    """
    place = os.environ.get("XDG_CONFIG_HOME", ""), os.environ.get("HOME", "")
    read_at, settings = _SETTINGS.get(place, (-git_http.SETTINGS_S, {}))
    if time.monotonic() - read_at >= git_http.SETTINGS_S:
        try:
            outcome = programs.run(
                ["git", "config", "--list", "-z"],
                env=_own_environment(),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MOST_S,
            )
        except (OSError, subprocess.SubprocessError):
            raise UnsuitedError from None
        if outcome.returncode:
            raise UnsuitedError
        rows = (row.partition("\n") for row in outcome.stdout.split("\0") if row)
        settings = {name.lower(): value for name, _, value in rows}
        _SETTINGS[place] = time.monotonic(), settings
    return settings


def _is_of_git(name: str) -> bool:
    return name.startswith("GIT_") and not name.startswith(("GIT_SSH", "GIT_SSL", "GIT_PROXY"))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The first line names the reason; what follows is advice.
    return next((line for line in lines if line.startswith("fatal: ")), (lines or ["no reason"])[0])
