"""Download of a bundle and its signature from a URL that a user entered."""

from __future__ import annotations

from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Reach, is_local, origin_of
from covalt_git.http_client import ClientRequest, Deadline, HttpClient, Response
from covalt_git.installs.signatures import MAX_SIGNATURE, SUFFIX

_SECONDS = 300.0
_FOUND = 200
_MISSING = (403, 404, 410)  # some object stores answer 403 for a missing file


class NotFetchedError(CovaltError):
    """A bundle or its signature that cannot be downloaded."""

    code = "not_fetched"
    http_status = 502


def fetch(url: str) -> bytes:
    """Return the content of an https URL, or of an http URL of this machine.

    Redirects are followed to public hosts over https only.

    Raises:
        BadHostError: if the URL is invalid.
        HttpError: if the server does not answer, or the file is larger than a bundle may be.
        NotFetchedError: if the server answers with another status than 200.
    """
    answer = _answer(url, MAX_ARCHIVE)
    if answer.status != _FOUND:
        raise _status_error(url, answer)
    return answer.content


def fetch_signature(url: str) -> bytes | None:
    """Return the signature at a bundle's URL with ``.sig`` added to its path; None if it does not exist.

    Raises:
        NotFetchedError: if the server fails, so that a signature may exist; and as :func:`fetch`.
    """
    plain, mark, query = url.partition("#")[0].partition("?")
    signature_url = f"{plain}{SUFFIX}{mark}{query}"
    answer = _answer(signature_url, MAX_SIGNATURE)
    # Only these mean that there is no signature. After any other error one may exist, and an attacker who makes the
    # server fail must not turn a signed bundle into an unsigned one.
    if answer.status in _MISSING:
        return None
    if answer.status != _FOUND:
        raise _status_error(signature_url, answer)
    return answer.content


def _answer(url: str, most: int) -> Response:
    origin, _ = origin_of(url)
    local = is_local(origin.host)
    if origin.scheme == "http" and not local:
        raise NotFetchedError(
            f"{origin} is not https, so the download could be modified on the way",
            hint=f"try https://{origin.shown_host}",
        )
    # Only a URL that the user entered may lead to this machine: a redirect of a stranger could otherwise reach its
    # services.
    reach = Reach((HostRule.parse(str(origin)),) if local else (), anywhere=True)
    accept = (("accept", "application/zip, application/octet-stream, */*"),)
    return HttpClient(reach, most=most).send(ClientRequest("GET", url, accept), Deadline(_SECONDS))


def _status_error(url: str, answer: Response) -> NotFetchedError:
    origin, _ = origin_of(url)
    return NotFetchedError(f"{origin} answers {answer.status} {answer.reason}".rstrip())
