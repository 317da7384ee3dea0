"""Operation that returns the disk usage of a chat."""

from pydantic import Field

from covalt_git.operations.chats.manifests import manifest_row
from covalt_git.operations.context import Context
from covalt_git.operations.registry import ChatRequest, PathText, Result, operation
from covalt_git.operations.results import CallLine
from covalt_git.workspaces import disk_usage


class GetDiskUsage(ChatRequest):
    """Request: the chat whose disk usage is returned."""

    limit: int = Field(20, ge=1, le=1000, description="Maximum number of paths, and of commits.")


class PathUsage(Result):
    """A file or folder, and the stored bytes of all its versions; a folder ends with ``/``."""

    path: PathText
    size: int


class CommitUsage(Result):
    """A commit, and the stored bytes of the file versions that it was the first to contain."""

    manifest_id: str
    title: str
    call: CallLine | None = Field(
        description="The call, if the commit is one whose tool the role may see."
    )
    size: int


class LargeFolder(Result):
    """A folder with at least a quarter of the store and 64 MiB, and the setting that excludes it from later commits."""

    path: PathText
    size: int
    ignore: str = Field(description="The line to write under ``workspace`` in covalt.yaml.")


class ChatDiskUsage(Result):
    """The bytes of a chat's store, by path and by commit, the largest first."""

    size: int
    paths: tuple[PathUsage, ...]
    commits: tuple[CommitUsage, ...]
    warning: str = Field(description="Empty if the store is smaller than 2,048 MiB.")
    large_folders: tuple[LargeFolder, ...]


@operation(errors=(404,))
def get_disk_usage(context: Context, request: GetDiskUsage) -> ChatDiskUsage:
    """Return the stored bytes of a chat by path, and by the commit that first stored them."""
    chat = context.chat(request.chat_id)
    usage = disk_usage.disk_usage(chat)
    # After the walk through the store, so that the index has a row for each commit that the walk has seen.
    context.chat_index().sync_chat(chat)
    return ChatDiskUsage(
        size=usage.size,
        paths=tuple(
            PathUsage(path=path, size=size) for path, size in _largest(usage.paths, request.limit)
        ),
        commits=tuple(
            _commit(context, chat.id, oid, size)
            for oid, size in _largest(usage.commits, request.limit)
        ),
        warning=disk_usage.large_store(chat),
        large_folders=tuple(
            LargeFolder(
                path=path,
                size=usage.paths[path],
                ignore=disk_usage.ignore_line(chat.config.ignore, path),
            )
            for path in usage.large_folders()
        ),
    )


def _commit(context: Context, chat_id: str, oid: str, size: int) -> CommitUsage:
    (row,) = context.chat_index().manifests(chat_id, head=oid, limit=1).rows
    return CommitUsage.of(manifest_row(context, row), manifest_id=oid, size=size)


def _largest(sizes: dict[str, int], limit: int) -> list[tuple[str, int]]:
    return sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:limit]
