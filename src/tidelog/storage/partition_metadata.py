"""`partition.metadata`: the id of the topic that a partition directory belongs to.

The id distinguishes the directory of a deleted topic from that of a new topic of the same name. The file is written
once, when the partition is created, and read when its log is loaded:

    version: 0
    topic_id: WWHmdO-jSXKyyyuyL2xmrg

Ids are 16 bytes in memory and unpadded URL-safe base64 in text, here and in `meta.properties`.
"""

import os
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Final

from tidelog.storage._pools import open_descriptor
from tidelog.storage.errors import StorageError
from tidelog.storage.replacing import write_atomically

PARTITION_METADATA_FILE: Final = "partition.metadata"

_NO_ID: Final = bytes(16)
_READ_BYTES_MAX: Final = 4096


class PartitionMetadataError(StorageError):
    """A `partition.metadata` file is malformed."""


def read_partition_metadata(directory: str) -> bytes | None:
    """The topic id of a partition directory, None when it has no file (written by a Kafka before topic ids)."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        data = os.read(descriptor, _READ_BYTES_MAX)
    finally:
        os.close(descriptor)
    return parse_partition_metadata(data, path)


def write_partition_metadata(directory: str, topic_id: bytes) -> None:
    """Give an existing partition its id, synced: without one it would be adopted by any topic of its name."""
    write_atomically(f"{directory}/{PARTITION_METADATA_FILE}", format_partition_metadata(topic_id))


def create_partition_metadata(directory: str, topic_id: bytes) -> str:
    """Write the file of a new partition and return its path, to be synced with the partition's first flush.

    Thousands of partitions may be created at once, and a sync for each would take minutes.
    """
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    descriptor = open_descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, format_partition_metadata(topic_id))
    finally:
        os.close(descriptor)
    return path


def format_partition_metadata(topic_id: bytes) -> bytes:
    return b"version: 0\ntopic_id: " + format_uuid(topic_id).encode()


def parse_partition_metadata(data: bytes, path: str) -> bytes:
    """The topic id in `data`; `path` is only for the message of the PartitionMetadataError."""
    fields: dict[bytes, bytes] = {}
    for line in data.splitlines():
        name, colon, value = line.partition(b":")
        if not colon:
            raise PartitionMetadataError(f"{path}: {line[:80]!r} is not `name: value`")
        fields[name] = value.strip()
    version = fields.get(b"version")
    if version != b"0":
        raise PartitionMetadataError(f"{path}: version is {_shown(version)}, expected 0")
    text = fields.get(b"topic_id")
    topic_id = parse_uuid(text) if text is not None else None
    if topic_id is None or topic_id == _NO_ID:
        raise PartitionMetadataError(f"{path}: topic_id is {_shown(text)}, expected 22 characters of URL-safe base64")
    return topic_id


def format_uuid(identifier: bytes) -> str:
    """16 bytes as Kafka prints a Uuid."""
    return b2a_base64(identifier, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def parse_uuid(text: bytes) -> bytes | None:
    """The 16 bytes that Kafka printed as `text`, None when it is not a Uuid."""
    text = text.rstrip(b"=")
    if len(text) != 22 or text.translate(None, _URL_SAFE):
        return None
    try:
        return a2b_base64(text.translate(_FROM_URL_SAFE) + b"==")
    except Base64Error:
        return None


_URL_SAFE: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def _shown(value: bytes | None) -> str:
    return "missing" if value is None else repr(value[:80])
