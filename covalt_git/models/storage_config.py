"""Model of ``storage`` in ``covalt.yaml``: where the chats of a project are stored."""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from covalt_git.models.base import Int, check_command, refusal
from covalt_git.models.git_url import GitAccess, check_git_url

CHAT_ID = "{chat_id}"


def _check_url(url: str) -> str:
    hint = "write https://git.example.com/chats/{chat_id}.git"
    if url.count(CHAT_ID) != 1 or CHAT_ID not in urlsplit(url).path:
        raise refusal(
            "the path of the URL must contain {chat_id} once, because each chat has a repository",
            hint,
        )
    return check_git_url(url, hint)


def _check_create(argv: tuple[str, ...]) -> tuple[str, ...]:
    return check_command(
        argv,
        CHAT_ID,
        example="[git, init, --bare, '/srv/chats/{chat_id}.git']",
        otherwise="all chats would get one repository",
        belongs="the chat's id",
    )


class StorageConfig(GitAccess):
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
        else:
            self.check_credentials(self.url)
        return self

    def url_of(self, name: str) -> str:
        """Return the URL of the repository of a chat."""
        assert self.url is not None
        return self.url.replace(CHAT_ID, name)


class GitStorage(NamedTuple):
    """The git storage of a project on this machine.

    Attributes:
        root: the folder of this machine that has the copies of the chats.
        config: the storage.
        secret_command: the project's command for secrets.
        is_trusted: whether the user of this machine had trusted it when this was read.
        project: the folder that has its ``covalt.yaml``, whose trust can be asked for again.
    """

    root: Path
    config: StorageConfig
    secret_command: tuple[str, ...]
    is_trusted: bool
    project: Path
