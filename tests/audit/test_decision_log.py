"""The log of decisions: complete lines in order, whatever interrupts a writer, and no line is ever deleted."""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covalt_git.audit.decision_log import DecisionLog, DecisionLogError
from covalt_git.json_values import canonical_json

FIELDS = {"by": "local", "tool_id": "demo:add", "decision": "denied"}


@contextmanager
def limited_file_size(most: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: a write ends in the middle, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def codes(root: Path) -> list[str | None]:
    return [record.code for record in DecisionLog(root).read()]


WRITER = """
import sys
from pathlib import Path
from covalt_git.audit.decision_log import DecisionLog

for number in range(50):
    DecisionLog(Path(sys.argv[1]), most_bytes=4_000).add(
        by="local", tool_id="demo:add", decision="denied", code=f"{sys.argv[2]}-{number}"
    )
"""


def test_lines_of_several_processes_are_complete_and_in_order(tmp_path: Path) -> None:
    """Also while the file is rotated, which happens at every twentieth line here."""
    argv = [sys.executable, "-P", "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*argv, name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    records = [*DecisionLog(tmp_path).read()]

    assert {record.code for record in records} == {f"{n}-{at}" for n in "abc" for at in range(50)}
    assert len(records) == 150
    assert [record.id for record in records] == sorted(record.id for record in records)
    files = sorted(path.name for path in (tmp_path / "data").glob("decisions-*.jsonl"))
    assert files[0] == "decisions-000001.jsonl"
    assert len(files) > 3


def test_a_part_of_a_line_that_a_killed_writer_left_damages_no_other_line(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.add(**FIELDS, code="first")
    file = tmp_path / "data" / "decisions.jsonl"
    with file.open("ab") as stream:
        stream.write(b'{"at":"2026-11-20T')
    log.add(**FIELDS, code="second")

    assert codes(tmp_path) == ["first", "second"]


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.add(**FIELDS, code="first")
    file = tmp_path / "data" / "decisions.jsonl"
    content = file.read_bytes()
    with limited_file_size(len(content) + 20), pytest.raises(DecisionLogError) as caught:
        log.add(**FIELDS, code="second")

    assert caught.value.http_status == 503
    assert file.read_bytes() == content
    log.add(**FIELDS, code="third")
    assert codes(tmp_path) == ["first", "third"]


def test_only_the_owner_can_read_the_log_and_no_link_is_followed(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.add(**FIELDS)
    file = tmp_path / "data" / "decisions.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()
    target = tmp_path / "elsewhere"
    target.touch()
    file.symlink_to(target)
    with pytest.raises(DecisionLogError):
        log.add(**FIELDS)
    assert target.read_bytes() == b""


def test_the_log_survives_a_rebuild_of_the_index(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    DecisionLog(root).add(**FIELDS, code="before")
    assert cli("index", "rebuild")[0] == 0
    assert codes(root) == ["before"]


def test_a_record_has_only_fields_that_differ_from_the_default(tmp_path: Path) -> None:
    record = DecisionLog(tmp_path).add(**FIELDS)
    line = (tmp_path / "data" / "decisions.jsonl").read_bytes()

    assert canonical_json.loads(line) == {"at": record.at, "id": record.id, **FIELDS}
