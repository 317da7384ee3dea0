"""The HTTP client against a real upstream: requests, destinations, redirects, answers and certificates."""

import ssl
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from covalt_git.hosts import Reach
from covalt_git.http_client import ClientRequest, Deadline, HttpClient, HttpError
from tests.http_tools.upstream import Upstream, answering, there, upstream

__all__ = ["there"]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def forget(request: pytest.FixtureRequest) -> None:
    if "there" in request.fixturenames:
        request.getfixturevalue("there").forget()


def client(*hosts: str, **changes: object) -> HttpClient:
    return HttpClient(Reach.of(*hosts), **changes)  # type: ignore[arg-type]


def get(url: str, *headers: tuple[str, str]) -> ClientRequest:
    return ClientRequest("GET", url, headers)


def deadline(seconds: float = 20) -> Deadline:
    return Deadline(seconds)


def failure(made: HttpClient, request: ClientRequest, seconds: float = 20) -> HttpError:
    with pytest.raises(HttpError) as caught:
        made.send(request, deadline(seconds))
    return caught.value


# Requests


def test_a_request_arrives_with_no_other_headers(there: Upstream) -> None:
    request = ClientRequest(
        "PUT", f"{there.url}/echo/a%2Fb?x=1", (("X-Key", "k"), ("Host", "evil.example")), b"{}"
    )
    answer = client(there.address).send(request, deadline())

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert there.last["raw"] == "/echo/a%2Fb?x=1"
    assert there.last["body"] == b"{}"
    assert there.last["headers"].pop("user-agent").startswith("covalt-git/")
    assert there.last["headers"] == {
        "host": there.address,
        "accept": "*/*",
        "accept-encoding": "gzip, deflate",
        "x-key": "k",
        "content-length": "2",
    }


def test_environment_cannot_send_requests_through_a_proxy(
    there: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert client(there.address).send(get(f"{there.url}/echo"), deadline()).status == 200


@pytest.mark.parametrize("path", ["/a/../b", "/a b", "/\u00fc", "/a\\b"])
def test_an_ambiguous_path_is_not_sent(there: Upstream, path: str) -> None:
    error = failure(client(there.address), get(there.url + path))

    assert error.code == "refused_destination"
    assert there.seen == []


# Destinations


def test_a_host_that_is_not_granted_is_not_resolved(there: Upstream) -> None:
    asked: list[str] = []

    def remember(host: str, _: int) -> Sequence[str]:
        asked.append(host)
        return []

    error = failure(client("api.example.com", resolve=remember), get(f"{there.url}/echo"))

    assert (error.code, asked) == ("refused_destination", [])


def test_a_name_is_resolved_once_and_its_addresses_are_tried_in_turn(there: Upstream) -> None:
    answers = [["127.0.0.77", "127.0.0.1"], ["10.0.0.1"]]
    asked: list[tuple[str, int]] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return answers.pop(0)

    url = f"http://api.example.com:{there.port}"
    answer = client(url, "127.0.0.0/8", resolve=rebinding).send(get(f"{url}/echo"), deadline())

    assert answer.status == 200
    assert asked == [("api.example.com", there.port)]
    assert there.last["headers"]["host"] == f"api.example.com:{there.port}"


def test_a_host_that_cannot_be_reached_is_an_error_before_the_request_was_sent() -> None:
    def none(*_: object) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    with answering(OK) as port:
        pass
    for error in (
        failure(client("api.example.com", resolve=none), get("https://api.example.com/")),
        failure(client(f"127.0.0.1:{port}"), get(f"http://127.0.0.1:{port}/")),
    ):
        assert (error.code, error.sent, error.is_transient) == ("connection_failed", False, True)


# Redirects


def to(there: Upstream, url: str, code: int = 302) -> str:
    return f"{there.url}/to?code={code}&url={url}"


@pytest.mark.parametrize(
    ("code", "method", "followed"),
    [
        (301, "GET", "GET"),
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (302, "PUT", "PUT"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
    ],
)
def test_a_redirect_keeps_or_changes_the_method(
    there: Upstream, code: int, method: str, followed: str
) -> None:
    body = b"" if method in {"GET", "HEAD"} else b"x"
    headers = (("X-Key", "k"), ("Content-Type", "text/plain"))
    request = ClientRequest(method, to(there, "/echo", code), headers, body)
    answer = client(there.address).send(request, deadline())

    assert (answer.redirects, answer.url) == (1, f"{there.url}/echo")
    assert there.last["method"] == followed
    assert there.last["body"] == (body if followed == method else b"")
    assert ("content-type" in there.last["headers"]) == (followed == method)
    assert there.last["headers"]["x-key"] == "k"
    assert there.last["cookies"] == {}


def test_a_redirect_to_another_origin_drops_credentials(there: Upstream) -> None:
    with upstream() as other:
        credentials = (("Authorization", "Bearer s"), ("X-Key", "s"), ("Cookie", "a=s"))
        request = get(to(there, f"{other.url}/echo"), *credentials, ("Accept", "a/b"))
        client(there.address, other.address).send(request, deadline())

        assert there.last["headers"]["authorization"] == "Bearer s"
        assert other.last["headers"].keys() == {"host", "user-agent", "accept", "accept-encoding"}
        assert other.last["headers"]["accept"] == "a/b"


def test_a_body_is_not_sent_to_another_origin(there: Upstream) -> None:
    with upstream() as other:
        request = ClientRequest("POST", to(there, f"{other.url}/echo", 307), content=b"private")
        error = failure(client(there.address, other.address), request)

        assert error.code == "bad_redirect"
        assert other.seen == []


# Answers


@pytest.mark.parametrize(
    ("path", "code"), [("/big", "output_too_large"), ("/brotli", "bad_answer")]
)
def test_a_large_or_unknown_encoding_is_an_error(there: Upstream, path: str, code: str) -> None:
    assert failure(client(there.address, most=1 << 20), get(there.url + path)).code == code


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"",
        b"hunter2 is no answer\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab",
    ],
)
def test_a_broken_answer_is_an_error_that_does_not_repeat_it(answer: bytes) -> None:
    with answering(answer) as port:
        error = failure(client(f"127.0.0.1:{port}"), get(f"http://127.0.0.1:{port}/"))

    assert (error.code, error.sent, error.is_transient) == ("bad_answer", True, True)
    assert "hunter2" not in error.message


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"],
)
def test_an_answer_that_never_ends_times_out(answer: bytes) -> None:
    with answering(answer, hold=True) as port:
        made = client(f"127.0.0.1:{port}")
        error = failure(made, get(f"http://127.0.0.1:{port}/"), seconds=0.15)
        slow = failure(
            client(f"127.0.0.1:{port}", read_s=0.1), get(f"http://127.0.0.1:{port}/"), seconds=60
        )

    assert error.code == slow.code == "timed_out"
    assert "0.15 s" in error.message
    assert "took longer than 0.1 s" in slow.message


def test_a_resolver_that_hangs_times_out() -> None:
    over = threading.Event()

    def hanging(*_: object) -> Sequence[str]:
        over.wait(60)
        return []

    error = failure(client("a.example", resolve=hanging), get("https://a.example/"), seconds=0.2)
    over.set()

    assert (error.code, "looking up a.example" in error.message) == ("timed_out", True)


def test_cancelling_ends_a_request() -> None:
    cancelled = threading.Event()
    with answering(b"", hold=True) as port:
        threading.Timer(0.05, cancelled.set).start()
        waits = Deadline(60, cancelled.is_set)
        with pytest.raises(HttpError) as caught:
            client(f"127.0.0.1:{port}").send(get(f"http://127.0.0.1:{port}/"), waits)

    assert caught.value.code == "cancelled"
    assert waits.left > 30


# Certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        " -subj /CN=api.example.com -keyout key.pem -out cert.pem"
        " -addext subjectAltName=DNS:api.example.com"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


def test_the_certificate_of_a_host_is_verified(certificate: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    trust = ssl.create_default_context(cafile=certificate / "cert.pem")
    with upstream(tls) as there:
        rules = [f"{name}.example.com:{there.port}" for name in ("api", "other")]
        made = client(*rules, "127.0.0.0/8", resolve=lambda _, __: ["127.0.0.1"], trust=trust)
        answer = made.send(get(f"https://api.example.com:{there.port}/echo"), deadline())
        other = failure(made, get(f"https://other.example.com:{there.port}/echo"))
        unknown = failure(
            client(*rules, "127.0.0.0/8", resolve=lambda _, __: ["127.0.0.1"]),
            get(f"https://api.example.com:{there.port}/echo"),
        )

        assert answer.status == 200
        assert there.last["headers"]["host"] == f"api.example.com:{there.port}"
        assert {other.code, unknown.code} == {"tls_failed"}
        assert "hostname mismatch" in other.message
        assert "self-signed certificate" in unknown.message
        assert len(there.seen) == 1
