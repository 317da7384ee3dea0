"""Lookup of the references of one request: declared secrets and entries of ``auth`` only, each use recorded.

Errors name the reference and never contain its value.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError
from covalt_git.templating.references import Reference, split

if TYPE_CHECKING:
    from covalt_git.connections.entry_tokens import ToolsetSignIns
    from covalt_git.credentials.values import SecretStore
    from covalt_git.hosts import WebOrigin

HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
"""Characters that every server accepts in a header."""

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class SecretMissingError(CovaltError):
    """A request needs a secret that is not set, or that its toolset does not declare."""

    code = "secret_missing"


class UnfitSecretError(CovaltError):
    """The value of a secret cannot be sent in its part of the request."""

    code = "secret_unfit"


@dataclass(slots=True)
class Lookup:
    """Values of the references of one call; ``used`` contains the values that were returned, by name.

    ``sign_ins`` are the entries of the toolset's ``auth`` whose values are tokens.
    """

    declared: frozenset[str]
    store: SecretStore
    sign_ins: ToolsetSignIns | None = None
    used: dict[str, str] = field(default_factory=dict, repr=False)
    _entries: set[str] = field(default_factory=set)
    _earlier: list[str] = field(default_factory=list, repr=False)

    def lookup(self, reference: Reference) -> str | None:
        """Return the value of a reference; None if it is not set and its default is empty.

        Raises:
            SecretMissingError: if it is not declared, or not set and without a default.
            UnfitSecretError: if the value is not text.
            SecretsFileError: if the file of secrets cannot be used.
            SignInNeededError: if it is an entry of ``auth`` without a sign-in.
        """
        name = reference.name
        if reference.place == "auth":
            return self._token(reference)
        # The user grants the declared names; without this, a template could send any variable of the environment.
        if name not in self.declared:
            raise SecretMissingError(
                f"the toolset does not declare the secret {name!r}",
                hint=f"add it to toolset.yaml: secrets: [{name}]",
            )
        value = self.store.value(name, reference.place)
        if value:
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise self._unfit(reference, "is not UTF-8")
            # Grants and the mask are about what is sent, not about what is declared.
            self.used[name] = value
            if reference.place != "basic":
                return value
            encoded = base64.b64encode(value.encode()).decode("ascii")
            self._earlier.append(encoded)
            return encoded
        if reference.default is None:
            raise SecretMissingError(f"{name!r} is not set", hint=self.store.how_to_set(name))
        return reference.default or None

    def _token(self, reference: Reference) -> str | None:
        """Return the token of a sign-in, or else the secret that its entry names in ``token``.

        Raises:
            SignInNeededError: if there is neither, and no default.
            SecretMissingError: if the toolset has no such entry.
        """
        name, sign_ins = reference.name, self.sign_ins
        entry = sign_ins.entries.get(name) if sign_ins is not None else None
        if sign_ins is None or entry is None:
            raise SecretMissingError(
                f"the toolset has no entry {name.partition(':')[2]!r} in auth",
                hint="add it to auth in toolset.yaml, or sign-ins cannot be used here",
            )
        self._entries.add(name)
        token = self.used.get(name) or sign_ins.token(name)
        if token:
            self.used[name] = token
            return token
        for piece in split(entry.token or ""):
            if isinstance(piece, Reference) and (value := self.lookup(piece._replace(default=""))):
                if not HEADER_VALUE.fullmatch(value):
                    raise self._unfit(
                        piece, "is no token, because it has characters of other texts"
                    )
                return value
        if reference.default is None:
            raise sign_ins.needed(name)
        return reference.default or None

    def check_hosts(self, origin: WebOrigin) -> None:
        """Check that an origin may get the entries of ``auth`` that were used.

        Raises:
            HostNotOfAuthError: if an entry does not name it.
        """
        if self.sign_ins is not None:
            self.sign_ins.check_hosts(sorted(self._entries), origin)

    def renew(self) -> bool:
        """Refresh the tokens that were used, after a server refused a request; return whether one is new."""
        is_new = False
        for name, token in list(self.used.items()):
            if self.sign_ins is None or name not in self.sign_ins.entries:
                continue
            renewed = self.sign_ins.renew(name, token)
            if renewed is not None and renewed != token:
                # The answer to the first request may repeat the old one.
                self._earlier.append(token)
                self.used[name], is_new = renewed, True
        return is_new

    @property
    def refused_sign_in(self) -> CovaltError | None:
        """The error of a server that refuses a token which cannot be renewed; None if no token was used."""
        names = self.sign_ins.entries.keys() & self.used.keys() if self.sign_ins else ()
        return self.sign_ins.needed(min(names)) if self.sign_ins and names else None

    def in_header(self, reference: Reference) -> str | None:
        """Return the value of a reference in a header.

        Raises:
            UnfitSecretError: if a header cannot carry it, and as :meth:`lookup`.
        """
        value = self.lookup(reference)
        if reference.name not in self.used or HEADER_VALUE.fullmatch(value or ""):
            return value
        is_control = _CONTROL.search(value or "")
        what = (
            "a line break or another control character"
            if is_control
            else "a letter that is not ASCII"
        )
        raise self._unfit(reference, f"cannot be sent in a header, because it contains {what}")

    def _unfit(self, reference: Reference, why: str) -> UnfitSecretError:
        name = reference.name
        source = "environment" if reference.place == "env" else self.store.source(name)
        hint = {
            "environment": f"set it again: export {name}=...",
            "file": f"set it again in {self.store.file}: {name}=...",
        }.get(source or "", f"covalt-git secret check {name}")  # which runs the secret command
        return UnfitSecretError(f"the secret {name!r} {why}", hint=hint)

    @property
    def mask(self) -> Mask:
        """Mask of the values that were returned."""
        stored = self.sign_ins.stored_values() if self.sign_ins is not None else ()
        return Mask((*self.used.values(), *self._earlier, *stored))
