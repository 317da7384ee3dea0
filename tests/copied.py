"""Copies of projects, which thousands of tests begin with."""

# Path objects would take a third of the time.
# ruff: noqa: PTH101, PTH102, PTH115, PTH116, PTH211

import os
from pathlib import Path


def copied(source: Path, target: Path) -> Path:
    """Copy a folder as ``shutil.copytree`` with links as links, in half the time: without extended attributes."""
    _copy(str(source), str(target))
    return target


def _copy(source: str, target: str) -> None:
    os.mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            place = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)
            elif entry.is_dir():
                _copy(entry.path, place)
            else:
                _copy_file(entry, place)
    os.chmod(target, os.stat(source).st_mode & 0o7777)


def _copy_file(entry: os.DirEntry[str], target: str) -> None:
    state = entry.stat()
    reader = os.open(entry.path, os.O_RDONLY)
    writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    while content := os.read(reader, 1 << 20):
        os.write(writer, content)
    os.fchmod(writer, state.st_mode & 0o7777)
    # The index takes files with other times for changed ones.
    os.utime(writer, ns=(state.st_atime_ns, state.st_mtime_ns))
    os.close(reader)
    os.close(writer)
