"""Operations on JSON values and JSON Schemas that need no library."""
