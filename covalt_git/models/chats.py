"""A chat's workspace as people see it: its manifests, branches, files and what changed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from covalt_git.models.base import StrictModel
from covalt_git.models.commit_record import CommitRecord, Made, Source, made


class WorkspaceManifest(StrictModel):
    """One state of a workspace: a commit of the chat's store, named by its full id."""

    id: str
    chat_id: str
    tree_id: str
    parents: tuple[str, ...]
    created_at: str
    source: Source
    source_ref: str | None = None
    message_id: str | None = None
    subject: str = Field("", description="The commit's first line, without the source.")
    record: CommitRecord

    @property
    def parent_id(self) -> str | None:
        """The state it was made from."""
        return self.parents[0] if self.parents else None

    @property
    def made(self) -> Made:
        """Where it was made."""
        return made(self.source)

    @property
    def title(self) -> str:
        """What was done, in one line."""
        call = self.record.call
        if call is not None:
            error = f": {call.error}" if call.error else ""
            return f"{call.tool_id} {call.status}{error}".partition("\n")[0]
        if self.record.upload:
            return "uploaded " + ", ".join(one.path for one in self.record.upload)
        kind = self.source.replace("_", " ")
        if self.made == "elsewhere":
            kind += " (made elsewhere)"
        return f"{kind}: {self.subject}" if self.subject else kind


class FileState(StrictModel):
    """A file of a tree: git's mode and blob id."""

    mode: int
    oid: str


class FileChange(StrictModel):
    """One path that differs between two trees; an absent side is None."""

    path: str
    old: FileState | None
    new: FileState | None

    @property
    def kind(self) -> Literal["added", "deleted", "modified"]:
        """What happened to the path."""
        if self.old is None:
            return "added"
        return "deleted" if self.new is None else "modified"


class Branch(StrictModel):
    """A branch of a chat and the manifest it is at; a chat's first has none until work begins."""

    name: str
    manifest_id: str | None
    active: bool


class Origin(StrictModel):
    """What a chat was forked from: another chat, at a manifest that both have."""

    chat_id: str
    manifest_id: str | None


class Chat(StrictModel):
    """A chat as lists show it."""

    id: str
    title: str
    created_at: str
    active_branch: str
    active_manifest_id: str | None
    active_leaf_message_id: str | None
    forked_from: Origin | None = None
