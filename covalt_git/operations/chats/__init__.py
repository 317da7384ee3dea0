"""Operations on chats: their history, messages and workspaces."""
