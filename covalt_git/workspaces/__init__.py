"""Chat workspaces: each a bare git store whose commits are the states, beside one working folder."""
