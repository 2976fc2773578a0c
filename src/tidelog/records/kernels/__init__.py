"""Work on very many records: plain Python that defines the results, and Numba kernels that compute them much faster.

    compaction     which records of a batch stay, and the map from keys to their last offsets
    batches        builds batches from the records that stay
    arrow_decode   records to Arrow's columns
    arrow_encode   Arrow's columns to record batches
    parts          the names that kernels in other rooms may import

`compaction_compiled`, `arrow_decode_compiled` and `arrow_encode_compiled` do the same on Numba. A broker never imports
NumPy or Numba. Other processes, such as the cleaner's worker, import the compiled modules by name and use the plain
ones if that fails; property tests compare the two.
"""
