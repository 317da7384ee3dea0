"""HTTP client for all requests to hosts that toolsets and users name.

httpx2 writes requests and reads responses; this package checks the hosts.  A name is resolved once for each
connection, each of its addresses is checked, and only these are connected to, so that a second lookup (DNS
rebinding) cannot change them.  Redirects are checked like the first request.  Cookies and proxies of the
environment are not used, certificates are always verified, and a deadline limits the whole exchange.
"""

from covalt_git.http_client.client import ClientRequest, FormPart, HttpClient, Response
from covalt_git.http_client.deadline import Deadline
from covalt_git.http_client.errors import HttpError

__all__ = [
    "ClientRequest",
    "Deadline",
    "FormPart",
    "HttpClient",
    "HttpError",
    "Response",
]
