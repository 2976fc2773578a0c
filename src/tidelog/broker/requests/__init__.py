"""What holds for a request whatever its handler does: versions and limits of its API, its times, its log line."""
