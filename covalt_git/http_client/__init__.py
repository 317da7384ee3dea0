"""The one HTTP client: every request of ours to somebody else's host goes through here.

httpx2 writes requests and reads answers; who is connected to is decided here.  A name is resolved
once for each connection, each of its addresses is checked, and exactly those are connected to, so
that no second look-up can lead elsewhere.  Redirects are followed by us and checked like a first
request.  No cookies are kept, no proxy is taken from the environment, certificates are always
verified, and every wait ends with the time of the whole exchange.
"""

from covalt_git.http_client.client import Answer, HttpClient, Part, Request
from covalt_git.http_client.deadline import Patience
from covalt_git.http_client.errors import HttpError
from covalt_git.http_client.transport import Resolve, resolve

__all__ = [
    "Answer",
    "HttpClient",
    "HttpError",
    "Part",
    "Patience",
    "Request",
    "Resolve",
    "resolve",
]
