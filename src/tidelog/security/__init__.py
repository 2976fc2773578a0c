"""Who is at the other end of a connection: TLS contexts, certificate names, SASL mechanisms, credentials, secrets.

Everything here takes bytes, settings and random numbers as arguments and returns bytes, principals and errors. Only
`files` touches the disk. No password, key or token appears in a `repr`, a log line or an error text.
"""
