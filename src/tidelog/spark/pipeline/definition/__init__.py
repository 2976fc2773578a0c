"""What a pipeline is: its file, source, steps, policy and sink, as plain data. No Spark before a step runs."""
