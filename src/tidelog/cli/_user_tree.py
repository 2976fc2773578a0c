"""Users written to the metadata of a broker that does not run."""

import os
from collections.abc import Sequence
from pathlib import Path

from tidelog.broker.stores import open_store
from tidelog.cli.errors import CommandError
from tidelog.config import load_broker_config, parse_properties
from tidelog.metadata.errors import StoreError
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.users import alter_user


def store_in_tree(server_properties: Path, user: str, settings: Sequence[tuple[str, str | None]]) -> None:
    """Change settings of a user in the tree that the broker with these settings uses."""
    config = load_broker_config(parse_properties(server_properties.read_text(encoding="utf-8")))
    directories = [os.path.abspath(directory) for directory in config.log_dirs]
    os.makedirs(directories[0], exist_ok=True)
    try:
        store = open_store(config, directories)
        try:
            prepare_tree(store)
            alter_user(store, user, settings)
        finally:
            store.close()
    except StoreError as error:
        raise CommandError(f"the metadata of {server_properties} cannot be written: {error}") from error
