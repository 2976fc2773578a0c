"""Tables: Delta Lake and Iceberg without a jar, and those of databases. Appended to, merged into, kept in order, read.

    storage       where a table lies: local directories and object stores, one set of settings for three libraries
    batches       which batch of a query a table has, and what to do with one that comes again
    commits       commits that meet those of other writers
    evolution     how the columns of a batch meet those of a table
    delta         Delta Lake through `deltalake`
    iceberg       Iceberg through `pyiceberg`
    iceberg_upkeep  what an Iceberg table no longer needs
    changes       rows that are changes: the last of each key
    history       rows that are changes: every version of each key
    sql           tables of relational databases
    sql_dialects  PostgreSQL and SQLite
    tables        the table that an endpoint of a pipeline describes, and what writes a batch into it

Executors write data files; the driver makes them part of the table in one commit that also has the batch's number.
"""
