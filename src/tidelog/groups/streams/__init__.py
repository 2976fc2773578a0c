"""Streams groups (KIP-1071): the members of a Kafka Streams application, whose tasks the broker assigns.

`topology` finds out what the topics of an application have to be, `assignor` who runs which task, `reconciliation` how
a member gets from the tasks it has to those it should have, and `service` decides requests with the help of the three.
"""
