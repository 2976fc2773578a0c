"""Records: batches of magic 2, their records, their codecs, and the formats before magic 2.

All functions work on bytes; nothing here uses files, sockets or clocks. The public modules:

    header       the header of a batch, its checksum, the fields a broker patches
    batch        iteration over batches and records
    record       the encoding of one record
    builder      building batches and transaction markers
    bulk         building a batch of many records quickly
    rows         reading a batch into rows quickly
    control      reading transaction markers
    compression  the codecs, with a limit on their output
    checksum     CRC-32C
    errors       the errors of record data, each with its error code
    scanner      checking records without decoding them
    validation   the checks of an append
    legacy       message sets of magic 0 and 1, to and from magic 2
    kernels      work on very many records, in plain Python and compiled
"""
