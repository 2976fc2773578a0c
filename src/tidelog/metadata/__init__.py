"""What the cluster knows about itself: the metadata tree, what stands in it, and the broker's image of it.

`store` is the tree as an interface, `embedded` keeps it, `store_queue` keeps it off the event loop; `paths` and `tree`
are Kafka's node paths and JSON; `image` answers Metadata requests. Import from the modules: nothing is imported here,
so that start-up loads only what it uses.
"""
