"""Steps applied to rows: of a batch, of a stream, of a test. Imports Spark."""
