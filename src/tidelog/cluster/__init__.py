"""Several brokers on one machine, in one directory: `tidelog cluster`, and the cluster of the testing kit.

layout        what is where in the directory, and the file that describes the cluster
supervisor    starts, watches and ends the brokers; serves them the metadata tree
control       how other processes ask a supervisor for something, over a Unix socket
"""
