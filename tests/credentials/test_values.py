"""Sources of secrets, and masks that hide every form of them."""

import base64
import html
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.credentials.values import MASK, SHORTEST, Mask, SecretsFileError, SecretStore

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
