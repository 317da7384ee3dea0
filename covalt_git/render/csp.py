"""What a page of a toolset may load, wherever it is shown: what stands in it, and nothing else."""

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
"""Directives of a content security policy that a header and a ``meta`` element may hold."""
