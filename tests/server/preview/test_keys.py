"""Keys of previews: which commit they open, for how long."""

import re

from covalt_server.preview.keys import IDLE_S, MOST, PreviewedCommit, PreviewKeys
from covalt_server.security import masked_path

FIRST = PreviewedCommit("session", "c1", "1" * 40)


def test_a_key_has_128_bits_and_belongs_to_a_session_a_chat_and_a_commit() -> None:
    keys = PreviewKeys()
    commits = [
        FIRST,
        FIRST._replace(session="other"),
        FIRST._replace(chat_id="c2"),
        FIRST._replace(manifest_id="2" * 40),
    ]
    found = {keys.key(commit): commit for commit in commits}

    assert len(found) == len(commits)
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in found)
    assert {key: keys.find(key) for key in found} == found
    assert {keys.key(commit): commit for commit in commits} == found


def test_a_key_ends_with_its_session() -> None:
    keys = PreviewKeys()
    own, other = keys.key(FIRST), keys.key(FIRST._replace(session="other"))
    without = keys.key(FIRST._replace(session=""))

    keys.end("session")

    assert [keys.opens(key) for key in (own, other, without)] == [False, True, True]
    assert keys.key(FIRST) != own


def test_a_key_ends_when_it_was_not_used_for_long() -> None:
    time = [0.0]
    keys = PreviewKeys(lambda: time[0])
    used, idle = keys.key(FIRST), keys.key(FIRST._replace(chat_id="c2"))
    time[0] = IDLE_S - 1
    assert keys.opens(used)

    time[0] = IDLE_S

    assert [keys.opens(key) for key in (used, idle)] == [True, False]


def test_the_number_of_keys_is_limited_and_the_least_used_one_ends() -> None:
    keys = PreviewKeys()
    first, second = keys.key(FIRST), keys.key(FIRST._replace(chat_id="c2"))
    keys.find(first)
    for number in range(MOST - 1):
        keys.key(FIRST._replace(chat_id=f"n{number}"))

    assert [keys.opens(key) for key in (first, second)] == [True, False]


def test_a_log_has_no_key() -> None:
    key = "0123456789abcdef" * 2

    assert masked_path(f"/preview/{key}/a%20b.js") == "/preview/***/a%20b.js"
    for path in (
        f"/%70review/{key}/",
        f"/preview/%30{key[1:]}/x",
        f"//preview//{key}",
        f"/a/preview/{key}",
    ):
        assert key not in masked_path(path)
        assert key[1:] not in masked_path(path)
    assert masked_path("/chats/c%0A1") == "/chats/c%0A1"
