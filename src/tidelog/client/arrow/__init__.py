"""The implementation of `poll_arrow` and `send_arrow`. Needs `pip install 'tidelog[arrow]'`.

    reading     fetched record batches → Arrow tables
    writing     Arrow tables → record batches
    schema      the columns that records have
    frames      pandas and Polars, to and from tables

The clients import these modules with the first call, by `client.arrow_parts`; nothing is imported here. The work on
records is done by `tidelog.records.kernels`, compiled where Numba is there and in plain Python where it is not.
"""
