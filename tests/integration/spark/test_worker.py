"""A worker process of Spark's stops looking through modules for garbage."""

import subprocess
import sys


def test_a_worker_freezes_what_it_has_once_for_each_kind_of_work() -> None:
    code = (
        "import gc, sys\n"
        "from types import SimpleNamespace\n"
        "from tidelog.spark.worker import settle\n"
        "sys.modules['__main__'].__spec__ = SimpleNamespace(name='pyspark.daemon')\n"
        "settle('read')\n"
        "first = gc.get_freeze_count()\n"
        "kept = [[] for _ in range(1000)]\n"
        "settle('read')\n"
        "second = gc.get_freeze_count()\n"
        "settle('write')\n"
        "print(first > 0, second == first, gc.get_freeze_count() > second)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
