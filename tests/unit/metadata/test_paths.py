from tidelog.metadata import paths


def test_the_roots_are_those_that_a_kafka_broker_makes_at_start() -> None:
    assert set(paths.PERSISTENT_ROOTS) == {
        "/consumers",
        "/brokers/ids",
        "/brokers/topics",
        "/config/changes",
        "/admin/delete_topics",
        "/brokers/seqid",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/config/topics",
        "/config/clients",
        "/config/users",
        "/config/brokers",
        "/config/ips",
    }


def test_paths_are_kafkas() -> None:
    assert paths.broker(3) == "/brokers/ids/3"
    assert paths.topic("orders") == "/brokers/topics/orders"
    assert paths.partitions("orders") == "/brokers/topics/orders/partitions"
    assert paths.partition("orders", 2) == "/brokers/topics/orders/partitions/2"
    assert paths.partition_state("orders", 2) == "/brokers/topics/orders/partitions/2/state"
    assert paths.config("brokers", paths.DEFAULT_ENTITY) == "/config/brokers/<default>"
    assert paths.topic_deletion("orders") == "/admin/delete_topics/orders"
