"""The producer state of a log.

state         ProducerStateManager: epochs, sequences, open transactions
snapshot      the snapshot files, which make it unnecessary to read a whole log
verification  whether a transaction's first batch may be appended (KIP-890)
"""
