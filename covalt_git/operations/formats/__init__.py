"""Operations on tool formats: conversions, and the servers in the files of MCP clients."""
