"""The admin: `admin` is the public class, `driver` sends requests, `types` has the data, the rest are operations."""
