"""Work on very many records: plain Python that defines it, and Numba kernels that do the same much faster.

    compaction            which records of a batch stay, and the map from keys to their last offsets; plain Python
    compaction_compiled   the same on Numba, for processes that may import it
    batches               batches put together from the records that stay

A broker never imports NumPy or Numba. Whoever may, a worker process say, imports `compaction_compiled` by its name and
goes on with `compaction` where that fails; property tests hold the two equal.
"""
