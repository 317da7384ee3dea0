"""Content-Security-Policy of the pages of toolsets, which can load nothing outside of the page."""

from __future__ import annotations

PAGE_POLICY = (
    "default-src 'none'",
    "script-src 'unsafe-inline'",
    "style-src 'unsafe-inline'",
    "img-src data: blob:",
    "font-src data:",
    "media-src data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
)
"""Directives that are valid both in a header and in a ``meta`` element."""
