"""The share consumer: records of topics as a queue, locked and acknowledged one by one (KIP-932).

    consumer         AsyncShareConsumer; the synchronous face is `tidelog.client.share_consumer.ShareConsumer`
    engine           the implementation of both, and of workers
    membership       heartbeats and the assignment (edge); member (pure)
    fetcher          sessions with leaders: fetches and acknowledgements (edge); session, acknowledging (pure)
    held             what the application has and how it acknowledged it (pure); locked: what a fetch brought (pure)

Nothing is imported here.
"""
