"""The cluster's topics for consumer groups, out of the broker's image of the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.groups.consumer.group import TopicInfo
from tidelog.metadata.image import ClusterImage
from tidelog.security.authorizer import AclAuthorizer


class ImageCatalog:
    """Every heartbeat compares its version, and reads the topics only if that has changed."""

    __slots__ = ("_authorizer", "_image")

    def __init__(self, image: ClusterImage, authorizer: AclAuthorizer | None = None) -> None:
        self._image = image
        self._authorizer = authorizer

    @property
    def version(self) -> int:
        return self._image.version + (0 if self._authorizer is None else self._authorizer.version)

    def topic(self, name: str) -> TopicInfo | None:
        found = self._image.topic(name)
        return None if found is None else TopicInfo(found.topic_id, len(found.partitions))

    def names(self) -> Iterable[str]:
        """Patterns do not match internal topics."""
        return [topic.name for topic in self._image.topics() if not topic.is_internal]
