"""Values are cached while no file changes; every change gives another signature."""

import os
from pathlib import Path

from covalt_git.system.file_cache import FileCache, signature


def test_a_value_made_within_a_clock_tick_of_a_change_is_not_cached(tmp_path: Path) -> None:
    file = tmp_path / "a"
    cache = FileCache()
    for text in "abcdefgh":
        file.write_text(text)
        os.utime(file, ns=(0, 0))
        assert signature(file) is None
        assert cache.get("text", [tmp_path], file.read_text) == text
