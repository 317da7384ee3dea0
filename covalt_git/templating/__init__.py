"""Expressions, references and URL templates in manifests."""
