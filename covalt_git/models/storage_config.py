"""Model of ``storage`` in ``covalt.yaml``: where the chats of a project are stored."""

import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from covalt_git.models.base import Int, StrictModel, check_command, refusal
from covalt_git.templating.references import Reference, split

CHAT_ID = "{chat_id}"
_SCHEMES = ("https", "http", "ssh", "file")
_PLAIN = re.compile(r"[!-~]+")


def _check_url(url: str) -> str:
    why, hint = "", "write https://git.example.com/chats/{chat_id}.git"
    parts = urlsplit(url)
    if url.count(CHAT_ID) != 1 or CHAT_ID not in parts.path:
        why = "the path of the URL must contain {chat_id} once, because each chat has a repository"
    # Git has further forms of URLs; `ext::` runs a command.
    elif not _PLAIN.fullmatch(url) or parts.scheme not in _SCHEMES:
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


def _check_create(argv: tuple[str, ...]) -> tuple[str, ...]:
    return check_command(
        argv,
        CHAT_ID,
        example="[git, init, --bare, '/srv/chats/{chat_id}.git']",
        otherwise="all chats would get one repository",
        belongs="the chat's id",
    )


def _check_password(text: str) -> str:
    pieces = split(text)
    if len(pieces) != 1 or not isinstance(pieces[0], Reference) or pieces[0].default is not None:
        raise refusal(
            "the password must be the name of a secret, because covalt.yaml is in git",
            "write ${GIT_TOKEN}, and set it in the environment or in secrets.env",
        )
    return text


class StorageConfig(StrictModel):
    """Where the chats are stored."""

    type: Literal["local", "git"] = Field(
        "local", description="local: in data/chats only. git: on a git server, for several nodes."
    )
    url: Annotated[str, AfterValidator(_check_url)] | None = Field(
        None, description="URL of the repository of a chat; {chat_id} is replaced by its id."
    )
    create: Annotated[tuple[str, ...], AfterValidator(_check_create)] = Field(
        (),
        description="Command that creates an empty repository, if the server does not create it on a push;"
        " {chat_id} is replaced by its id.",
    )
    username: Annotated[str, Field(min_length=1, pattern=r"^[!-9;-~]+$")] | None = Field(
        None, description="User name for https; if it is missing, git's credential helpers decide."
    )
    password: Annotated[str, AfterValidator(_check_password)] | None = Field(
        None,
        description="Reference to the secret with the password or token, such as ${GIT_TOKEN}.",
    )
    lease_s: Annotated[Int, Field(ge=5, le=3600)] = Field(
        30,
        description="Time after which another node can take over a chat of a dead node, in seconds.",
    )

    @model_validator(mode="after")
    def _keys_of_the_type(self) -> Self:
        if self.type == "local":
            others = [name for name in sorted(self.model_fields_set) if name != "type"]
            if others:
                raise refusal(
                    f"storage of the type local has no {others[0]!r}",
                    "add type: git, or remove the key",
                    at=(others[0],),
                )
        elif self.url is None:
            raise refusal(
                "storage of the type git needs a 'url'",
                "add url: https://git.example.com/chats/{chat_id}.git",
            )
        elif (self.username is None) != (self.password is None):
            raise refusal(
                "'username' and 'password' are used together", "add the other one, or remove both"
            )
        elif self.password is not None and urlsplit(self.url).scheme not in {"https", "http"}:
            raise refusal(
                "a password is for https URLs only", "use a key of ssh instead", at=("password",)
            )
        return self

    @property
    def password_name(self) -> str | None:
        """The name of the secret with the password."""
        pieces = split(self.password or "")
        return pieces[0].name if pieces and isinstance(pieces[0], Reference) else None

    def url_of(self, name: str) -> str:
        """Return the URL of the repository of a chat."""
        assert self.url is not None
        return self.url.replace(CHAT_ID, name)


class GitStorage(NamedTuple):
    """The git storage of a project on this machine.

    Attributes:
        root: the project.
        config: its storage.
        secret_command: its command for secrets.
        is_trusted: whether the user of this machine has trusted it.
    """

    root: Path
    config: StorageConfig
    secret_command: tuple[str, ...]
    is_trusted: bool
