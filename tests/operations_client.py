"""Operations of a project, performed in this process as one role."""

from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import pytest

from covalt_git.errors import CovaltError
from covalt_git.operations.context import Context
from covalt_git.operations.registry import RequestFile, ResultFile, every_operation
from covalt_git.project import Project


@dataclass(frozen=True)
class Operations:
    """The operations of the project at ``root``; each call opens it anew, as a request does."""

    root: Path
    role: str | None = None

    def __call__(self, name: str, /, **request: Any) -> Any:
        """Perform an operation; return its result as JSON values, or the bytes of its file."""
        with Context(self.root, partial(Project.open, self.root, role=self.role)) as context:
            result = every_operation()[name](context, **request)
            if not isinstance(result, ResultFile):
                return result.model_dump(mode="json", by_alias=True)
            with result.stream:
                return result.stream.read()

    def error(self, name: str, /, **request: Any) -> CovaltError:
        """Return the error of an operation that has to fail."""
        with pytest.raises(CovaltError) as raised:
            self(name, **request)
        return raised.value

    def as_role(self, role: str) -> Self:
        """Return the operations as another role performs them."""
        return replace(self, role=role)

    def workspace(self, chat_id: str) -> Path:
        """Return the folder with a chat's files."""
        return self.root / "data/chats" / chat_id / "workspace"

    def store(self, chat_id: str) -> Path:
        """Return a chat's git repository."""
        return self.root / "data/chats" / chat_id / "store.git"

    def commit(self, chat_id: str, **files: str | bytes) -> str:
        """Write files in a chat's folder and commit them; return the manifest's id."""
        for path, content in files.items():
            file = self.workspace(chat_id) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(self("save_edits", chat_id=chat_id)["manifest_id"])


def uploads(**files: bytes) -> list[RequestFile]:
    """Return files as a request has them."""
    return [RequestFile(name, BytesIO(content)) for name, content in files.items()]
