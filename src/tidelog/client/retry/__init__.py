"""Records that a handler failed on: tried again after a delay, then dead letters. See docs/retries.md."""
