"""Download of one file from a URL that a user entered."""

from __future__ import annotations

from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Reach, is_local, origin_of
from covalt_git.http_client.client import ClientRequest, HttpClient, Response
from covalt_git.http_client.deadline import Deadline

_SECONDS = 300.0


class NotFetchedError(CovaltError):
    """A file that cannot be downloaded."""

    code = "not_fetched"
    http_status = 502


def public_answer(
    url: str, most: int, accept: str, request: ClientRequest | None = None
) -> Response:
    """Return the answer of an https URL, or of an http URL of this machine, to a request: by default, to a GET.

    Redirects are followed to public hosts over https only.

    Raises:
        BadHostError: if the URL is invalid.
        HttpError: if the server does not answer, or with more than ``most`` bytes.
        NotFetchedError: if the URL is http of another machine.
    """
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
    get = ClientRequest("GET", url, (("accept", accept),))
    return HttpClient(reach, most=most).send(request or get, Deadline(_SECONDS))


def status_error(url: str, answer: Response) -> NotFetchedError:
    """Return the error of an answer that is not the file."""
    origin, _ = origin_of(url)
    return NotFetchedError(f"{origin} answers {answer.status} {answer.reason}".rstrip())
