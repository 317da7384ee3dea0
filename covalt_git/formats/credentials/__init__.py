"""Credentials in documents of other formats, which a conversion replaces by references."""
