"""Content-Security-Policy of the pages of toolsets, which can load nothing outside of the page."""

from __future__ import annotations

PAGE_POLICY = (
    # Includes connect-src: a page of a third-party toolset has the result of the call, and must not send it anywhere.
    "default-src 'none'",
    "script-src 'unsafe-inline'",
    "style-src 'unsafe-inline'",
    "img-src data: blob:",
    "font-src data:",
    "media-src data: blob:",
    # These two do not fall back to default-src (Content Security Policy Level 3).
    "base-uri 'none'",
    "form-action 'none'",
)
"""Directives that are valid both in a header and in a ``meta`` element."""
