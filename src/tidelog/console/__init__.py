"""The web console: pages for people about any Kafka cluster, rendered on the server.

    settings       ConsoleSettings: where it listens, how people log in
    app            build_app: the routes, as a Starlette application
    server         serves the application until it is stopped
    cluster_view   ClusterView: the cluster as pages see it, cached, with samples over time
    scan, reading  which records a page shows, and how they are read
    tail           records as they arrive, for pages that stay open
    pages          one module for each area of the console

The console talks to the cluster only through `tidelog.client`, and runs in a process of its own, beside brokers. It
needs `pip install 'tidelog[console]'`. Nothing is imported here.
"""
