"""What a log knows of its producers.

state         ProducerStateManager: epochs, sequences, open transactions
snapshot      the snapshot files that spare reading a whole log
verification  whether a transaction's first batch may be appended (KIP-890)
"""
