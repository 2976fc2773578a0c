"""A running broker: start and stop, the dispatcher and its handlers, and the parts that connect them to the cores.

Import from the modules: nothing is imported here, so that start-up loads only what it uses.
"""
