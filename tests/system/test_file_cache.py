"""Values are cached while no file changes; every change gives another signature."""

import os
import time
from pathlib import Path

from covalt_git.system.file_cache import TICK_NS, FileCache, PacedSignatures, signature


def test_a_value_made_within_a_clock_tick_of_a_change_is_not_cached(tmp_path: Path) -> None:
    file = tmp_path / "a"
    cache = FileCache()
    for text in "abcdefgh":
        file.write_text(text)
        os.utime(file, ns=(0, 0))
        assert signature(file) is None
        assert cache.get("text", [tmp_path], file.read_text) == text


def test_the_signature_of_a_link_changes_with_the_file_that_it_leads_to(tmp_path: Path) -> None:
    file, link = tmp_path / "index", tmp_path / "link"
    file.write_text("a")
    link.symlink_to(file)
    for path in (file, link):
        os.utime(path, ns=(0, 0), follow_symlinks=False)
    time.sleep(2 * TICK_NS / 1e9)
    before = signature(link)
    assert before is not None

    file.write_text("b")
    time.sleep(2 * TICK_NS / 1e9)

    assert signature(link) not in {None, before}


def test_a_paced_signature_is_computed_again_after_its_pause(tmp_path: Path) -> None:
    times = iter([0, 0.01, 0.099, 0.1, 5.1, 6.0, 6.1])  # s: it takes 10 ms, and later 5 s
    signatures = PacedSignatures(lambda: next(times))
    first = signatures.get(tmp_path)
    (tmp_path / "new").touch()

    assert signatures.get(tmp_path) == first  # at 99 ms
    second = signatures.get(tmp_path)  # at 100 ms
    assert second != first
    (tmp_path / "newer").touch()
    assert signatures.get(tmp_path) != second  # at 6 s, although ten times 5 s are not over
