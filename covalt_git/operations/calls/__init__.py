"""Use cases of calls: making one or a batch of them, approving them, and the tools of covalt-git itself."""
