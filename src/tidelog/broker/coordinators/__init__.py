"""The edges of the group and the transaction coordinator, between handlers and the cores."""
