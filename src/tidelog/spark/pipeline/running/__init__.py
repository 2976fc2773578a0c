"""A pipeline as queries of Spark: sources opened, batches computed and written, checkpoints read."""
