"""URLs of git repositories in ``covalt.yaml``, and the credentials for them."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from covalt_git.models.base import StrictModel, refusal
from covalt_git.templating.references import Reference, split

_SCHEMES = ("https", "http", "ssh", "file")
_PLAIN = re.compile(r"[!-~]+")


def check_git_url(url: str, hint: str) -> str:
    """Return the URL of a repository; ``hint`` has an example of a valid one."""
    why = ""
    parts = urlsplit(url)
    # Git has further forms of URLs; `ext::` runs a command.
    if not _PLAIN.fullmatch(url) or parts.scheme not in _SCHEMES:
        why = f"the URL must begin with {', '.join(f'{scheme}://' for scheme in _SCHEMES)}"
    elif parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        why = "the URL must not contain a user or a password"
        hint = "add the keys username: NAME and password: ${SECRET}"
    # `ssh -oProxyCommand=...` would be an option of ssh.
    elif (parts.hostname or "").startswith("-") or (parts.username or "").startswith("-"):
        why = "the URL has no valid host"
    elif parts.scheme != "file" and not parts.hostname:
        why = "the URL has no host"
    if why:
        raise refusal(why, hint)
    return url


def _check_password(text: str) -> str:
    pieces = split(text)
    if len(pieces) != 1 or not isinstance(pieces[0], Reference) or pieces[0].default is not None:
        raise refusal(
            "the password must be the name of a secret, because covalt.yaml is in git",
            "write ${GIT_TOKEN}, and set it in the environment or in secrets.env",
        )
    return text


class GitAccess(StrictModel):
    """The credentials for a git server."""

    username: Annotated[str, Field(min_length=1, pattern=r"^[!-9;-~]+$")] | None = Field(
        None, description="User name for https; if it is missing, git's credential helpers decide."
    )
    password: Annotated[str, AfterValidator(_check_password)] | None = Field(
        None,
        description="Reference to the secret with the password or token, such as ${GIT_TOKEN}.",
    )

    @property
    def password_name(self) -> str | None:
        """The name of the secret with the password."""
        pieces = split(self.password or "")
        return pieces[0].name if pieces and isinstance(pieces[0], Reference) else None

    def check_credentials(self, url: str) -> None:
        """Refuse credentials that are not complete, or that the transport of a URL does not send."""
        if (self.username is None) != (self.password is None):
            raise refusal(
                "'username' and 'password' are used together", "add the other one, or remove both"
            )
        if self.password is not None and urlsplit(url).scheme not in {"https", "http"}:
            raise refusal(
                "a password is for https URLs only", "use a key of ssh instead", at=("password",)
            )
