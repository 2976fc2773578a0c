"""The log on disk: segments, indexes, producer state, leader epochs and the log that owns them.

Import from the modules; this package re-exports nothing, so that a broker loads only what it uses:

* `tidelog.storage.log`: `Log`; `tidelog.storage.types`: `AppendOrigin`, `LogAppendInfo`, `LogRead`, …
* `tidelog.storage.files`: `FileSlice`, the bytes a fetch sends with `sendfile`
* `tidelog.storage.segment`, `.offset_index`, `.time_index`, `.transaction_index`
* `tidelog.storage.producer_state`, `.leader_epochs`, `.errors`, `.names`
"""
