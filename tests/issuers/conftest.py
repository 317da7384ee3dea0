"""The app of each test's own project: the shared one has the verifier of another."""

from pathlib import Path

import pytest
from flask import Flask

from tests.api_client import Api


@pytest.fixture
def app(root: Path) -> Flask:
    return Api.of(root).app
