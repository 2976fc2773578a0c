"""Opening the log of a partition from its files, after a crash as well.

loader        load_log: everything in order, and what that took
producer_ids  the largest producer id that the files of a log know
"""
