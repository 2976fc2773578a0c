"""Opening the log of a partition from its files, also after a crash.

loader        load_log: the loading and recovery of one log
producer_ids  the largest producer id in the files of a log
"""
