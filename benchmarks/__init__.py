"""Tidelog beside Apache Kafka: the same load, the same machine, the same run.

`python -m benchmarks` starts both brokers, drives them in turn with prebuilt frames over raw sockets and writes
`benchmarks/RESULTS.md`. Nothing here is imported by the product; `tests/compat/kafka_tools` borrows `apache_kafka`.

    apache_kafka    fetch Kafka's jars, run its broker, ZooKeeper and command line tools
    tidelog_broker  run our broker as users do: one process, its defaults
    processes       what both have in common: spawn, wait until it serves, stop, measure
    frames, admin   request bytes by hand, and the few control calls a case needs
    load            the measured loops; they must cost less than any broker
    sink            a server that answers without thinking: what the load itself can reach
    cases, scale    what is measured, as a table
    profiling       py-spy on our broker
    method, report  rounds, interleaving, ratios and their spread; the page
"""
