"""A mutation check of the pure cores: small changes of their code, drawn at random, and whether the tests notice.

`tests/gauntlet` plants mistakes that somebody thought of; these are the ones that nobody did.
"""
