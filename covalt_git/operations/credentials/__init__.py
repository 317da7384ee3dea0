"""Operations on credentials: secrets of tools, OAuth logins, and access tokens of agents."""
