"""Files of spent tokens: the first call has the token, and the same call may go on with it."""

import time
from pathlib import Path

import pytest

from covalt_git.issuers.spent_tokens import SpentTokenError, SpentTokens
from covalt_git.models.access_token import AccessToken


def test_a_token_is_spent_by_the_first_call(tmp_path: Path) -> None:
    spent = SpentTokens(tmp_path)
    token = AccessToken("i", "s", "r", "d", int(time.time()) + 60, "the-id")
    spent.spend(token, "c1", "a")
    spent.spend(token, "c1", "a", again=True)
    for chat_id, call_id, again in (("c1", "a", False), ("c1", "b", True), ("c2", "a", True)):
        with pytest.raises(SpentTokenError):
            spent.spend(token, chat_id, call_id, again=again)
    # Of an approved call only the digest of its token is stored, so it cannot spend one that was not noted.
    with pytest.raises(SpentTokenError):
        spent.spend(token._replace(jti="other", approved=True), "c1", "a", again=True)
