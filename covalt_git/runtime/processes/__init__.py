"""The processes that tools run in: fork server, warm sandboxes and tool processes.

The interpreters of tools load this package, so it imports the standard library only; in the sandbox also pydantic
and the SDK.
"""
