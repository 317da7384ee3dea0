"""Download of a bundle and its signature from a URL that a user entered."""

from __future__ import annotations

from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.credentials.ssh_signatures import MAX_SIGNATURE
from covalt_git.http_client.public_download import public_answer, status_error
from covalt_git.installs.signatures import SUFFIX

_ACCEPT = "application/zip, application/octet-stream, */*"
_FOUND = 200
_MISSING = (403, 404, 410)  # some object stores answer 403 for a missing file


def fetch(url: str) -> bytes:
    """Return the content of an https URL, or of an http URL of this machine.

    Redirects are followed to public hosts over https only.

    Raises:
        BadHostError: if the URL is invalid.
        HttpError: if the server does not answer, or the file is larger than a bundle may be.
        NotFetchedError: if the server answers with another status than 200.
    """
    answer = public_answer(url, MAX_ARCHIVE, _ACCEPT)
    if answer.status != _FOUND:
        raise status_error(url, answer)
    return answer.content


def fetch_signature(url: str) -> bytes | None:
    """Return the signature at a bundle's URL with ``.sig`` added to its path; None if it does not exist.

    Raises:
        NotFetchedError: if the server fails, so that a signature may exist; and as :func:`fetch`.
    """
    plain, mark, query = url.partition("#")[0].partition("?")
    signature_url = f"{plain}{SUFFIX}{mark}{query}"
    answer = public_answer(signature_url, MAX_SIGNATURE, _ACCEPT)
    # Only these mean that there is no signature. After any other error one may exist, and an attacker who makes the
    # server fail must not turn a signed bundle into an unsigned one.
    if answer.status in _MISSING:
        return None
    if answer.status != _FOUND:
        raise status_error(signature_url, answer)
    return answer.content
