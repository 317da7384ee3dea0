"""Chat workspaces: each a bare git store of commits, and one working folder."""
