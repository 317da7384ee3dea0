"""Holders of access tokens at a server: verified with the issuers that the user of this machine trusts now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.catalog.current_config import current_config
from covalt_git.issuers import Verifier, is_jwt
from covalt_git.issuers.key_sets import KeysUnavailableError
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_config import BrokenConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.access_token import AccessToken


class TokenHolders:
    """The holders of access tokens of the project in ``root``; thread-safe."""

    def __init__(self, root: Path, verifier: Verifier | None = None) -> None:
        self._root = root
        self._verifier = verifier or Verifier(root)

    def find(self, text: str) -> AccessToken | None:
        """Return the facts of a token with the form of a JWT; None for other texts.

        Raises:
            InvalidTokenError: as :meth:`.Verifier.verify`, which raises other errors too.
            KeysUnavailableError: also if ``covalt.yaml`` has errors, which a client without rights must not learn.
        """
        if not is_jwt(text):
            return None
        try:
            config = current_config(current_root(self._root))
        except BrokenConfigError:
            raise KeysUnavailableError("covalt.yaml cannot be used") from None
        return self._verifier.verify(config, text)

    def issuers(self) -> tuple[str, ...]:
        """Return the issuers whose tokens are accepted now."""
        try:
            config = current_config(current_root(self._root))
        except BrokenConfigError:
            return ()
        return tuple(issuer.issuer for issuer in config.issuers)
