"""Workers: functions that are called for each record of a queue (a share group), as tasks of Celery are.

    worker     Worker and `@worker`
    run        one run of a worker: polls, handlers, stop (edge)
    jobs       which records run, wait, are done or need a longer lock (pure)

Nothing is imported here.
"""
