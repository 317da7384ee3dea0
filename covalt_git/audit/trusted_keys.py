"""Public keys that may have signed commits: lines of OpenSSH's allowed-signers format, as git reads them."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.allowed_signers import AllowedSigner, BadSignerLineError
from covalt_git.workspaces.commit_key import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TIMES = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


class TrustedKeys(NamedTuple):
    """Public keys in the format of SSH, each with the lines about it."""

    signers: Mapping[bytes, tuple[AllowedSigner, ...]]

    @classmethod
    def parse(cls, lines: Iterable[str]) -> TrustedKeys:
        """Return the keys of the lines; empty ones and comments are skipped.

        Raises:
            CovaltError: ``bad_signer``, if a line is invalid.
        """
        signers = defaultdict[bytes, list[AllowedSigner]](list)
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                signer = AllowedSigner.parse(line, NAMESPACE)
            except BadSignerLineError as error:
                raise CovaltError(
                    f"line {number} of the allowed signers {error.reason}",
                    hint=error.hint,
                    code="bad_signer",
                ) from None
            # The key of an authority signs certificates, which sign; a commit with one is not of covalt-git.
            if "cert-authority" not in signer.options:
                signers[signer.key].append(signer)
        return cls({key: tuple(signer) for key, signer in signers.items()})

    @classmethod
    def of_key(cls, key: bytes) -> TrustedKeys:
        """Return one key, which is valid at all times."""
        return cls({key: (AllowedSigner("*", key),)})

    def is_trusted(self, key: bytes, time: int) -> bool:
        """Return whether a key may sign at a time, in seconds since 1970."""
        try:
            at = datetime.fromtimestamp(time, UTC)
        except (OSError, OverflowError, ValueError):
            return False  # no calendar has the time; git stores any number
        return any(_is_valid(signer, at) for signer in self.signers.get(key, ()))


def _is_valid(signer: AllowedSigner, at: datetime) -> bool:
    after, before = (signer.options.get(name) for name in ("valid-after", "valid-before"))
    return (after is None or _time(after) <= at) and (before is None or at < _time(before))


def _time(text: str) -> datetime:
    """Return a time of ssh-keygen(1): in UTC if it ends with Z, else in the zone of this machine."""
    digits = text.removesuffix("Z")
    parsed = datetime.strptime(digits, _TIMES[len(digits)])  # noqa: DTZ007 - see below
    return parsed.replace(tzinfo=UTC) if digits != text else parsed.astimezone()
