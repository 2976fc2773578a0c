"""Several cores of one machine behind one address: what `tidelog serve --cores N` runs.

layout        the settings and the directories of each core, from the settings of the machine
moves         partitions from the directory of one core to that of another, by rename
supervisor    a broker process for each core, the metadata tree between them, restarts
"""
