"""Fetching a bundle from an address that a person typed."""

from __future__ import annotations

from covalt_git.errors import CovaltError
from covalt_git.files.bundle_reading import MAX_ARCHIVE
from covalt_git.hosts import HostRule, Reach, is_local, origin_of
from covalt_git.http_client import HttpClient, Patience, Request

_SECONDS = 300.0
_FOUND = 200


class NotFetchedError(CovaltError):
    """There is no bundle to be had at an address."""

    code = "not_fetched"
    http_status = 502


def fetch(url: str) -> bytes:
    """Return what is at an https address, or at an http one of this machine; redirects are followed.

    They lead to public hosts over https only, whatever host it began with.

    Raises:
        BadHostError: when it is no address.
        HttpError: when there is no answer, or it is larger than a bundle can be.
        NotFetchedError: when the answer is another than the file.
    """
    origin, _ = origin_of(url)
    local = is_local(origin.host)
    if origin.scheme == "http" and not local:
        raise NotFetchedError(
            f"{origin} is not https, so that anybody on the way could change it",
            hint=f"try https://{origin.shown_host}",
        )
    reach = Reach((HostRule.parse(str(origin)),) if local else (), anywhere=True)
    accept = (("accept", "application/zip, application/octet-stream, */*"),)
    answer = HttpClient(reach, most=MAX_ARCHIVE).send(
        Request("GET", url, accept), Patience(_SECONDS)
    )
    if answer.status != _FOUND:
        raise NotFetchedError(f"{origin} answers {answer.status} {answer.reason}".rstrip())
    return answer.content
