"""Rows that fail: marked, routed to retry and dead-letter topics, parked behind their key, replayed."""
