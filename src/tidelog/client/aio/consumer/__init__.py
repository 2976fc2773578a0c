"""The consumer: records of topics, alone or as a member of a group.

    consumer         AsyncConsumer; the synchronous face is `tidelog.client.consumer.Consumer`
    engine           the implementation of both
    coordinator      rebalances (edge); membership, leader, protocol, assignors (pure)
    fetcher          fetches (edge); fetch_plan, fetch_session, fetch_buffer, completed_fetch (pure)
    offset_lookup    offsets from leaders (edge); subscription, partition_state, offset_reset (pure)
    commits          offsets of the group (edge); auto_commit, async_commits

Nothing is imported here.
"""
