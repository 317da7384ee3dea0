"""Fetching a bundle, and its signature, from an address that a person typed."""

from __future__ import annotations

from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Reach, is_local, origin_of
from covalt_git.http_client import Deadline, HttpClient, Request, Response
from covalt_git.installs.signatures import MAX_SIGNATURE, SUFFIX

_SECONDS = 300.0
_FOUND = 200
_NONE_THERE = (403, 404, 410)  # some stores say 403 where there is no such file


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
    answer = _answer(url, MAX_ARCHIVE)
    if answer.status != _FOUND:
        raise _refused(url, answer)
    return answer.content


def fetch_signature(url: str) -> bytes | None:
    """Return what is beside the bundle at an address, under its name and ``.sig``, or None.

    Raises:
        NotFetchedError: when there may be one, and it cannot be had; and as :func:`fetch`.
    """
    plain, mark, query = url.partition("#")[0].partition("?")
    beside = f"{plain}{SUFFIX}{mark}{query}"
    answer = _answer(beside, MAX_SIGNATURE)
    if answer.status in _NONE_THERE:
        return None
    if answer.status != _FOUND:
        raise _refused(beside, answer)
    return answer.content


def _answer(url: str, most: int) -> Response:
    origin, _ = origin_of(url)
    local = is_local(origin.host)
    if origin.scheme == "http" and not local:
        raise NotFetchedError(
            f"{origin} is not https, so that anybody on the way could change it",
            hint=f"try https://{origin.shown_host}",
        )
    reach = Reach((HostRule.parse(str(origin)),) if local else (), anywhere=True)
    accept = (("accept", "application/zip, application/octet-stream, */*"),)
    return HttpClient(reach, most=most).send(Request("GET", url, accept), Deadline(_SECONDS))


def _refused(url: str, answer: Response) -> NotFetchedError:
    origin, _ = origin_of(url)
    return NotFetchedError(f"{origin} answers {answer.status} {answer.reason}".rstrip())
