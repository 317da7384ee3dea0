"""Sources of secrets, and masks that hide every form of them."""

import base64
import html
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.connections import login_reach
from covalt_git.connections.stderr_tail import TAIL_BYTES, StderrTail
from covalt_git.credentials.values import MASK, SHORTEST, Mask, SecretsFileError, SecretStore
from covalt_git.errors import failure_text
from covalt_git.http_client.client import Response
from covalt_git.http_tools.answer import error_message
from covalt_git.json_values.json_schema import value_problems
from covalt_git.text.display import shorten
from covalt_git.text.printed import MOST_STORED, shortened

FILE = """
# the keys of this machine
WEATHER_KEY=abc=def
export QUOTED='it is # quoted'
  SPACED = "a b"
EMPTY=
"""


def store(folder: Path, text: str = FILE, mode: int = 0o600, **environment: str) -> SecretStore:
    file = folder / "secrets.env"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return SecretStore(environment, file)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEATHER_KEY", "abc=def"),
        ("QUOTED", "it is # quoted"),
        ("SPACED", "a b"),
        ("EMPTY", ""),
        ("OTHER", None),
    ],
)
def test_the_file_has_names_and_values(tmp_path: Path, name: str, value: str | None) -> None:
    assert store(tmp_path).value(name) == value


def test_the_file_has_precedence_over_the_environment(tmp_path: Path) -> None:
    both = store(tmp_path, WEATHER_KEY="other", ONLY="here")

    assert both.value("WEATHER_KEY") == both.value("WEATHER_KEY", "secret") == "abc=def"
    assert both.value("WEATHER_KEY", "env") == "other"
    assert both.value("ONLY") == "here"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_file_that_others_may_read_is_not_used(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SecretsFileError) as caught:
        store(tmp_path, mode=mode).value("WEATHER_KEY")

    assert caught.value.hint == f"chmod 600 {tmp_path / 'secrets.env'}"


def test_an_invalid_line_is_reported_by_its_number_alone(tmp_path: Path) -> None:
    with pytest.raises(SecretsFileError) as caught:
        store(tmp_path, "A=1\nhunter2\n").value("A")

    assert "line 2 of" in caught.value.message
    assert "hunter2" not in str(caught.value)


def test_the_repr_of_a_store_has_no_values() -> None:
    assert "hunter2" not in repr(SecretStore({"A": "hunter2"}))


def forms(value: str) -> dict[str, str]:
    """Return texts that a value comes back in."""
    raw = value.encode()
    return {
        "plain": f"x{value}y",
        "reversed": value[::-1],
        "url": quote(raw, safe=""),
        "form": quote_plus(raw),
        "json": json.dumps({"a": value}),
        "json of utf-8": json.dumps({"a": value}, ensure_ascii=False),
        "html": html.escape(f"<p>{value}</p>"),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
    }


@given(st.text(st.characters(codec="utf-8"), min_size=SHORTEST, max_size=40))
def test_every_form_of_a_value_is_masked(value: str) -> None:
    mask = Mask([value])

    for form, text in forms(value).items():
        assert mask.text(text) != text, form
        assert value not in mask.text(text).replace(MASK, "") or value in MASK


@given(st.binary(max_size=5), st.text("abcXYZ0189-_+/", min_size=8), st.binary(max_size=5))
def test_a_value_within_base64_is_masked_at_every_offset(
    before: bytes, value: str, after: bytes
) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(before + value.encode() + after).decode()

        assert MASK in Mask([value]).text(whole)


def test_values_in_json_and_bytes_are_masked() -> None:
    mask = Mask(["hunter22", "12345678", "abc"])

    value = {"a": ["my hunter22", 12345678, True, None, 1.5], "hunter22": {"b": "abc"}}
    assert mask.value(value) == {"a": ["my ***", "***", True, None, 1.5], "***": {"b": "abc"}}
    assert mask.content(b"\x00hunter22\xff") == b"\x00***\xff"
    assert "hunter22" not in repr(mask)


def test_each_line_of_a_value_is_masked_where_lines_are_shown_by_themselves() -> None:
    key = (
        "-----BEGIN KEY-----\nk7Zk2Vx9Lm4Tp8Ws3Nd6Rb1YQq\nB5Qj3Wx8Km2Up7Zs4Nc9\n-----END KEY-----\n"
    )

    shown = [Mask([key]).text(f"note: {line!r}") for line in key.splitlines()]

    assert not any(line in "".join(shown) for line in ("k7Zk2Vx9Lm4Tp8Ws3Nd6Rb1YQq", "B5Qj3W"))


AWS = "wJalrXUtnFEMIK7MDENGbPxRfiCYzz9Q8v7T6s5R"
PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA"
FILES = {
    "escaped line breaks": (rf"-----BEGIN KEY-----\n{PEM}\nq3Zt9Lk2\n-----END KEY-----\n", PEM),
    "service account": (json.dumps({"private_key": f"-----BEGIN KEY-----\n{PEM}\nq3Zt\n"}), PEM),
    "lines with blanks": (
        f"[default]\naws_access_key_id = A\naws_secret_access_key = {AWS}\n",
        AWS,
    ),
    "kubeconfig": (f"users:\n- name: a\n  user:\n    token: {AWS}\n", AWS),
    "netrc": ("machine h\n  login ann\n  password correcthorse\n", "correcthorse"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_a_program_reads_from_a_file_is_masked_by_itself(name: str) -> None:
    file, secret = FILES[name]

    assert secret not in Mask([file]).text(f"config: {secret}")
    for whole in (file, file.replace(r"\n", "\n"), file.replace("\n", "\r\n"), json.dumps(file)):
        assert secret not in Mask([file]).text(json.dumps(whole))


@pytest.mark.parametrize(
    "line",
    ["VerySecretPassphraseOfMine", "8391047265518820", "Tr!vial#Pass&word", "qXzvBkPlmWtRsYdF"],
)
def test_each_longer_line_of_a_value_is_masked(line: str) -> None:
    assert Mask([f"admin\n{line}\n"]).text(f"login failed for {line}") == "login failed for ***"


def test_addresses_and_words_that_a_value_has_too_are_not_masked() -> None:
    address = "https://hooks.example.com/services/T00/B00/x7Kd9Qa2Wz5"
    file = "enabled\ntrue\nclient_secret: a1b2c3d4e5f6\n"

    assert Mask([address]).text("curl https://... -o x") == "curl https://... -o x"
    assert Mask([address]).text(f"see {address[:30]}…") == "see ***…"
    assert Mask([file]).value({"enabled": True, "a": "true"}) == {"enabled": True, "a": "true"}


def test_ordinary_words_of_a_file_are_not_masked() -> None:
    file = "apiVersion: v1\nkind: Config\nclusters:\n- name: default\n[core]\nregion = eu-west-1\n"
    text = "kind default Config clusters: [core] region eu-west-1"

    assert Mask([file]).text(text) == text


def stderr(text: str) -> str:
    tail = StderrTail(lambda _line: None)
    for start in range(0, len(text), 1000):
        tail._append(text[start : start + 1000].encode())
    return tail.text


def stderr_line(text: str) -> str:
    lines: list[str] = []
    tail = StderrTail(lines.append)
    for start in range(0, len(text), 1000):
        tail._append(text[start : start + 1000].encode())
    tail._append(b"\n")
    return "".join(lines)


CUTS: dict[str, tuple[int, Callable[[str], str]]] = {
    "shorten": (80, shorten),
    "a value that a schema refuses": (
        80,
        lambda text: str(value_problems({"const": 1}, {"a": text})),
    ),
    "printed text": (MOST_STORED // 2, shortened),
    "stderr": (TAIL_BYTES, stderr),
    "a line of stderr": (TAIL_BYTES, stderr_line),
    "an error of a library": (300, lambda text: failure_text(ValueError(text))),
    "an error of a login": (300, login_reach.plain_words),
    "an error of an HTTP tool": (
        500,
        lambda text: error_message(
            Response("https://h/", 500, "no", {"content-type": "text/plain"}, text.encode())
        ),
    ),
}


@pytest.mark.parametrize(
    ("cut", "rest"),
    [
        pytest.param(cut, rest, marks=pytest.mark.rest if rest > CUTS[cut][0] > 80 else ())
        for cut in CUTS
        for rest in (1, 40_000)
    ],
)
def test_what_a_cut_leaves_of_a_value_is_masked(cut: str, rest: int) -> None:
    most, shortened_by = CUTS[cut]
    for left_out, before in product(range(0, 60, 5), ["", "a b ", "\n"]):
        head = (before + "x" * most)[: most - left_out]
        for text in (f"{head} {AWS} {'y ' * rest}", f"{'z ' * rest} {AWS} {head}"):
            shown = Mask([AWS]).text(shortened_by(text))
            parts = (AWS[place : place + 12] for place in range(len(AWS) - 11))

            assert not any(part in shown for part in parts), (left_out, before)
