"""Operations on sign-ins that a page starts: they run in this process while the user is at the provider.

A page cannot wait for minutes as a command does.  So it starts a sign-in, shows its URL, and asks for its state.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile
from covalt_git.errors import CovaltError, failure_text
from covalt_git.grants.status import acting_grants
from covalt_git.hosts import origin_of
from covalt_git.operations.context import Context
from covalt_git.operations.credentials.logins import WHAT, expiry_text, find_entry, sign_in_entries
from covalt_git.operations.registry import Request, Result, operation

if TYPE_CHECKING:
    from covalt_git.models.auth_entries import Auth
    from covalt_git.toolsets.toolset import Toolset

_START_S = 30.0
"""Time limit until the URL of a sign-in is known: its provider's metadata may have to be fetched."""

EXCHANGE_S = 5.0
"""Seconds within which the code of a pasted address is exchanged; a wrong address leaves the sign-in waiting."""


@dataclass
class _Running:
    """A sign-in: its URL, once it is known, and its end; ``addresses`` are pasted by the user."""

    url: Future[str] = field(default_factory=Future)
    end: Future[None] = field(default_factory=Future)
    addresses: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)


_RUNNING: dict[tuple[str, str], _Running] = {}
"""The last sign-in of each entry, by the project and TOOLSET/ID."""

_STARTING = threading.Lock()


class StartSignIn(Request):
    """Request: the entry of auth to sign in to."""

    server: str = Field(description="TOOLSET/ID of an entry of auth.")
    client_id: str | None = Field(
        None, max_length=500, description="The id of a registered client."
    )


class PasteAddress(Request):
    """Request: the address that a browser of another machine ended at."""

    server: str = Field(description="TOOLSET/ID of an entry of auth.")
    address: str = Field(max_length=8192)


class ListSignIns(Request):
    """Request: a toolset."""

    toolset_id: str = Field(max_length=200)


class SignInState(Result):
    """An entry of auth, and the state of the user's sign-in to it."""

    server: str
    provider: str
    scopes: tuple[str, ...]
    hosts: tuple[str, ...]
    state: Literal["signed_in", "expired", "waiting", "none"]
    expires_at: str | None = Field(description="When its token expires, if that is known.")
    renewable: bool
    url: str = Field(description="Where to sign in, while it is waiting.")
    why: str = Field(description="Why the last sign-in failed.")
    hint: str
    needs_client: bool = Field(description="Whether the entry names no client.")


class SignInStates(Result):
    """The sign-ins of a toolset."""

    sign_ins: tuple[SignInState, ...]


@operation(admin=WHAT, local=True)
def list_sign_ins(context: Context, request: ListSignIns) -> SignInStates:
    """List the sign-ins that a toolset declares, each with its state."""
    toolset = context.catalog.find_toolset(request.toolset_id)
    return SignInStates(
        sign_ins=tuple(_state(context, toolset, entry) for entry in sign_in_entries(toolset))
    )


@operation(changes=True, admin=WHAT, local=True)
def start_sign_in(context: Context, request: StartSignIn) -> SignInState:
    """Start a sign-in and return its URL; it ends when the user comes back from there, or after five minutes."""
    from covalt_git.connections.entry_sign_in import SignInOptions, sign_in_to  # noqa: PLC0415 - it loads the SDK
    from covalt_git.connections.login_reach import LoginCallbacks  # noqa: PLC0415 - few requests need it
    from covalt_git.connections.token_store import ClientChoice  # noqa: PLC0415

    root = context.project.root
    toolset, entry = find_entry(root, request.server)
    choice = ClientChoice(client_id=request.client_id) if request.client_id else None
    name = Name(root, toolset.id, entry.reference_name)
    may = acting_grants(toolset)
    running = _Running()

    def sign_in() -> None:
        callbacks = LoginCallbacks(lambda _: None, running.url.set_result, lambda _: None)
        options = SignInOptions(choice=choice, read_address=running.addresses.get)
        try:
            sign_in_to(name, entry, may, callbacks, options)
            running.end.set_result(None)
        except Exception as error:  # noqa: BLE001 - else the page would wait for ever
            running.end.set_exception(error)
            if not running.url.done():
                running.url.set_exception(error)

    with _STARTING:
        key = str(root), f"{toolset.id}/{entry.id}"
        earlier = _RUNNING.get(key)
        # A second click gets the URL of the first: its redirect has the only state that is accepted.
        if earlier is None or earlier.end.done():
            _RUNNING[key] = running
            threading.Thread(target=sign_in, daemon=True).start()
        else:
            running = earlier
    running.url.result(_START_S)
    return _state(context, toolset, entry)


@operation(changes=True, admin=WHAT, local=True)
def paste_address(context: Context, request: PasteAddress) -> SignInState:
    """Complete a sign-in with the address that a browser of another machine ended at."""
    root = context.project.root
    toolset, entry = find_entry(root, request.server)
    running = _RUNNING.get((str(root), f"{toolset.id}/{entry.id}"))
    if running is None or running.end.done():
        raise CovaltError(
            f"no sign-in to {toolset.id}/{entry.id} is waiting",
            hint="start it again",
            code="no_sign_in",
            http_status=409,
        )
    running.addresses.put(request.address)
    try:
        running.end.result(EXCHANGE_S)
    except TimeoutError:
        raise CovaltError(
            "this is not the address that the sign-in ends at",
            hint="copy the whole address, from http:// on, from the page that could not be reached",
            code="bad_redirect",
            http_status=422,
        ) from None
    return _state(context, toolset, entry)


def _state(context: Context, toolset: Toolset, entry: Auth) -> SignInState:
    root = context.project.root
    server = f"{toolset.id}/{entry.id}"
    stored = SignInFile.of(Name(root, toolset.id, entry.reference_name), entry.digest).read()
    running = _RUNNING.get((str(root), server))
    is_waiting = running is not None and not running.end.done()
    error = running.end.exception() if running is not None and running.end.done() else None
    state: Literal["signed_in", "expired", "waiting", "none"] = "signed_in"
    if is_waiting:
        state = "waiting"
    elif stored is None or stored.is_dead:
        state = "none" if stored is None else "expired"
    issuer = entry.url("authorize_url") or entry.url("issuer") or ""
    return SignInState(
        server=server,
        provider=entry.preset.name if entry.preset else str(origin_of(issuer)[0]),
        scopes=entry.effective_scopes,
        hosts=(
            *entry.effective_hosts,
            *dict.fromkeys(str(origin_of(url)[0]) for url in entry.other_token_urls),
        ),
        state=state,
        expires_at=expiry_text(stored) if stored else None,
        renewable=stored is not None and stored.refresh_token is not None,
        url=running.url.result() if running and is_waiting and running.url.done() else "",
        why=error.message
        if isinstance(error, CovaltError)
        else failure_text(error)
        if error
        else "",
        hint=error.hint if isinstance(error, CovaltError) else "",
        needs_client=entry.client_id is None,
    )
