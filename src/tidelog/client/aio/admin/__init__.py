"""The admin: `admin` is the face, `driver` asks, `types` has what goes in and out, the rest are the operations."""
