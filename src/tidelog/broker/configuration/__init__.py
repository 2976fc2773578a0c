"""The settings of a running broker: what packages derive from them, and how they change."""
