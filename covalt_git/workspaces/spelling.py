"""What the tree of a folder says: spelled of the files and folders that are known to be in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.git_store import FOLDER, encode_raw_tree, with_other_ids
from covalt_git.workspaces.folders import mode_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.workspaces.stat_cache import KnownFolder, Seen

_FEW = 100
"""Changes of a tree that are put into its content, for each of which it is read and copied as a whole."""


def spell(files: Mapping[str, Seen], folders: Mapping[str, KnownFolder]) -> bytes:
    """Return the content of a tree; nothing where nothing is stored."""
    entries = [(encoded(name), mode_of(seen[4]), seen[5]) for name, seen in files.items()]
    entries += [
        (encoded(name), FOLDER, bytes.fromhex(folder.tree))
        for name, folder in folders.items()
        if folder.tree is not None
    ]
    return encode_raw_tree(entries)


def spell_again(
    known: KnownFolder, files: Mapping[str, Seen], folders: Mapping[str, KnownFolder]
) -> bytes:
    """Return the same, of the names that a folder is known to have; mostly few of them differ."""
    if known.spelled is None:
        return spell(files, folders)
    changed = [name for name, seen in files.items() if seen is not known.files[name]]
    changed += [name for name, one in folders.items() if one is not known.folders.get(name, one)]
    return spell_changed(known, changed, files, folders)


def spell_changed(
    known: KnownFolder,
    names: Iterable[str],
    files: Mapping[str, Seen],
    folders: Mapping[str, KnownFolder],
) -> bytes:
    """Return the same, where no others than ``names`` differ."""
    if known.spelled is None:
        return spell(files, folders)
    changes = []
    for name in names:
        if name in files:
            was, now = known.files[name], files[name]
            mode = mode_of(now[4])
            if mode_of(was[4]) != mode:
                return spell(files, folders)
            changes.append((encoded(name), mode, was[5], now[5]))
        else:
            before, after = known.folders[name].tree, folders[name].tree
            if before != after and before is not None and after is not None:
                ids = bytes.fromhex(before), bytes.fromhex(after)
                changes.append((encoded(name), FOLDER, *ids))
    changes = [one for one in changes if one[2] != one[3]]
    again = with_other_ids(known.spelled, changes) if len(changes) <= _FEW else None
    return spell(files, folders) if again is None else again


def encoded(name: str) -> bytes:
    """Return a name as git has it: the bytes that the file system has."""
    return name.encode("utf-8", "surrogateescape")
