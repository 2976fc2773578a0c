"""Requests that are well-formed and hostile, and what they cost everybody else.

rendering   bytes of any declared request in any version, with one field replaced by whatever is hostile
requests    the requests: one for each API, version, field and kind of hostility, and a few large ones by name
bystander   a process with a client of its own that is served meanwhile, and measures how long it waits
preparing   what a broker has before it is attacked
contestants the brokers to attack: Tidelog, Apache Kafka
measuring   sends a request and watches the bystander and the broker's memory
attack      one broker and its requests, with a deadline for each; a broker that stops serving is replaced
journal     outcomes on disk as they come
progress    how far the run is
report      the table
command     `python -m benchmarks hostile`
"""
