"""The producer: a pure core (accumulator, sequences, verdicts) and a thin edge (sender, transactions, producer)."""
