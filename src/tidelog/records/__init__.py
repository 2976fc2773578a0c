"""Records: batches of magic 2, what is inside them, their codecs, and the formats that came before.

Bytes in, bytes out; nothing here knows files, sockets or clocks. The modules are the public list:

    batch        the header, its checksum, the fields a broker patches, iteration over batches and records
    builder      building batches and transaction markers
    control      reading transaction markers
    compression  the codecs, with a bound on what they may produce
    errors       what can be wrong, with the error code of each
    validation   the checks of an append
    legacy       message sets of magic 0 and 1, to and from magic 2
"""
