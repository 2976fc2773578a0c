"""Several brokers on one machine, in one directory: `tidelog cluster`, and the cluster of the testing kit.

layout        the files of the directory, and the description of the cluster
supervisor    starts, watches and stops the brokers; serves the metadata tree
zookeeper     a ZooKeeper process, from the jars that PySpark brings
control       commands of other processes to the supervisor, over a Unix socket
"""
