"""Mistakes in a pipeline, found before it runs: in its definition, in the cluster, in Spark's plan."""
