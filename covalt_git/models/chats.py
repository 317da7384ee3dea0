"""Models of chats: commits (workspace manifests), branches, files and changes."""

from typing import Literal

from pydantic import Field

from covalt_git.models.base import StrictModel
from covalt_git.models.calls import RenderPlan, ToolCall
from covalt_git.models.commit_record import CommitOrigin, CommitRecord, Source, commit_origin


class WorkspaceManifest(StrictModel):
    """A commit of a chat.  "Workspace manifest" is the specification's name of its table and API."""

    id: str
    chat_id: str
    tree_id: str
    parents: tuple[str, ...]
    created_at: str
    source: Source
    source_ref: str | None = None
    message_id: str | None = None
    subject: str = Field("", description="Subject of the commit, without the source.")
    record: CommitRecord

    @property
    def parent_id(self) -> str | None:
        """The first parent."""
        return self.parents[0] if self.parents else None

    @property
    def made(self) -> CommitOrigin:
        return commit_origin(self.source)

    @property
    def tool_call(self) -> ToolCall | None:
        """The call that the commit records, as a row of the table ``tool_calls``."""
        call = self.record.call
        if call is None:
            return None
        return ToolCall(
            id=self.record.id,
            chat_id=self.chat_id,
            message_id=self.message_id,
            tool_id=call.tool_id,
            args=call.args,
            result=call.result,
            render_plan=call.render_plan and RenderPlan.model_validate(call.render_plan),
            status=call.status,
            error=None if call.error is None else str(call.error),
            started_at=call.started_at,
            finished_at=call.finished_at,
            pre_manifest_id=self.parent_id,
            post_manifest_id=self.id,
            links=call.links,
            fields=call.fields,
        )

    @property
    def title(self) -> str:
        """The title of the commit in one line."""
        call = self.record.call
        if call is not None:
            error = f": {call.error}" if call.error else ""
            return f"{call.tool_id} {call.status}{error}".partition("\n")[0]
        if self.record.upload:
            return "uploaded " + ", ".join(file.path for file in self.record.upload)
        kind = self.source.replace("_", " ")
        if self.made == "elsewhere":
            kind += " (made elsewhere)"
        return f"{kind}: {self.subject}" if self.subject else kind


class FileState(StrictModel):
    """A file of a tree: the mode and the blob id of git."""

    mode: int
    oid: str


class FileChange(StrictModel):
    """One path that differs between two trees; an absent side is None."""

    path: str
    old: FileState | None
    new: FileState | None

    @property
    def kind(self) -> Literal["added", "deleted", "modified"]:
        if self.old is None:
            return "added"
        return "deleted" if self.new is None else "modified"


class Branch(StrictModel):
    """A branch of a chat, and its last commit; None until the first commit."""

    name: str
    manifest_id: str | None
    active: bool


class Origin(StrictModel):
    """The chat that a chat was forked from, and the last common commit."""

    chat_id: str
    manifest_id: str | None
