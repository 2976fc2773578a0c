"""What becomes of rows that fail: marked, routed to retry and dead-letter topics, parked behind their key, replayed."""
