"""What can go wrong with a decision of the controller, beside `ControllerMovedError` and other errors of the tree."""


class StateChangeFailedError(Exception):
    """A partition or a replica cannot enter a state and stays in the one that it has; the message says why."""
