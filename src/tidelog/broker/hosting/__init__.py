"""The logs of the partitions that this broker has replicas of."""
