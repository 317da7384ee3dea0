"""Tree of files for display: folders first, then files, each sorted by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Leaf = TypeVar("Leaf")


@dataclass(slots=True)
class TreeFolder(Generic[Leaf]):
    """A folder; ``files`` has a value for each file, by its name."""

    name: str
    path: str
    folders: dict[str, TreeFolder[Leaf]] = field(default_factory=dict)
    files: dict[str, Leaf] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Leaf]:
        """Iterate over all files below, in display order."""
        for folder in self.folders.values():
            yield from folder
        yield from self.files.values()

    def __len__(self) -> int:
        """Return the number of files below."""
        return len(self.files) + sum(len(folder) for folder in self.folders.values())

    def at(self, path: str) -> TreeFolder[Leaf]:
        """Return the folder at a path below this one; create it if it does not exist."""
        folder = self
        for name in path.split("/") if path else ():
            below = f"{folder.path}/{name}" if folder.path else name
            folder = folder.folders.setdefault(name, TreeFolder(name, below))
        return folder

    def sort(self) -> None:
        """Sort everything below by name, in natural order."""
        for folder in self.folders.values():
            folder.sort()
        self.folders = dict(sorted(self.folders.items(), key=lambda item: _key(item[0])))
        self.files = dict(sorted(self.files.items(), key=lambda item: _key(item[0])))


def tree(files: Mapping[str, Leaf], empty_folders: Iterable[str] = ()) -> TreeFolder[Leaf]:
    """Return the tree of files by path, and of empty folders."""
    root: TreeFolder[Leaf] = TreeFolder("", "")
    for path, leaf in files.items():
        above, _, name = path.rpartition("/")
        root.at(above).files[name] = leaf
    for path in empty_folders:
        root.at(path)
    root.sort()
    return root


def _key(name: str) -> tuple[str, str]:
    return name.casefold(), name
