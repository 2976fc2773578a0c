"""The checks: each takes what was seen of a cluster and yields findings. Pure.

`CHECKS` need one look, `COMPARISONS` two, some seconds apart: what moves is well, whatever its size.
"""

from collections.abc import Callable, Iterator
from typing import Final

from tidelog.client.aio.admin.types import PartitionDescription
from tidelog.client.types import TopicPartition
from tidelog.config.log_config import needed_in_sync
from tidelog.health.findings import Finding, Level, about_topics, counted, some_of
from tidelog.health.snapshot import THROTTLES, Settings, Snapshot

REPLICAS_WANTED: Final = 3
DISK_FULL_SHARE: Final = 0.97
DISK_FILLING_SHARE: Final = 0.85
IMBALANCE_SHARE: Final = 0.1
"""leader.imbalance.per.broker.percentage is 10 by default."""

_LOOPBACK: Final = ("localhost", "127.", "[::1]", "::1")
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_TEMPORARY: Final = ("/tmp/", "/dev/shm/")  # noqa: S108 -- brokers that write there are what is looked for

Check = Callable[[Snapshot], Iterator[Finding]]
Comparison = Callable[[Snapshot, Snapshot], Iterator[Finding]]


def _partitions(seen: Snapshot) -> Iterator[tuple[str, PartitionDescription]]:
    for name, topic in seen.topics.items():
        for each in topic.partitions:
            yield name, each


def _of_topic(settings: Settings, name: str, default: int) -> int:
    try:
        return int(settings.get(name) or default)
    except ValueError:
        return default


# --- brokers and the controller ---


def controller(seen: Snapshot) -> Iterator[Finding]:
    if seen.cluster.controller_id not in seen.broker_ids:
        advice = (
            "Leaders are not elected and topics cannot be changed until there is one. See whether brokers reach "
            "ZooKeeper, and their logs."
        )
        yield Finding(Level.BAD, "the cluster", "has no controller", advice)


def missing_brokers(seen: Snapshot) -> Iterator[Finding]:
    missing = {each for _, partition in _partitions(seen) for each in partition.replicas} - {*seen.broker_ids}
    if len(missing) == 1:
        advice = "Replicas are assigned to it. Start it again, or move its replicas to others with `tidelog reassign`."
        yield Finding(Level.WARNING, f"broker {missing.pop()}", "is not in the cluster", advice)
    elif missing:
        advice = "Replicas are assigned to them. Start them again, or move their replicas with `tidelog reassign`."
        yield Finding(Level.WARNING, f"brokers {some_of(missing)}", "are not in the cluster", advice)


# --- partitions ---


def leaderless(seen: Snapshot) -> Iterator[Finding]:
    found = {name for name, each in _partitions(seen) if each.leader_id < 0}
    if found:
        count = sum(each.leader_id < 0 for _, each in _partitions(seen))
        advice = (
            "They can be neither read nor written. Start the brokers that hold their in-sync replicas; if those are "
            "lost, `tidelog elect --unclean` elects another replica and may lose acknowledged records."
        )
        yield about_topics(Level.BAD, found, counted(count, "partition", "has no leader", "have no leader"), advice)


def below_min_in_sync(seen: Snapshot) -> Iterator[Finding]:
    for name, topic in seen.topics.items():
        needed = _of_topic(seen.topic_settings.get(name, {}), "min.insync.replicas", 1)
        below = [
            each
            for each in topic.partitions
            if each.leader_id >= 0 and len(each.in_sync) < needed_in_sync(needed, len(each.replicas))
        ]
        if below:
            count = counted(len(below), "partition", "has", "have")
            text = f"{count} fewer in-sync replicas than min.insync.replicas={needed}"
            advice = "Producers with acks=all get NOT_ENOUGH_REPLICAS until the missing replicas are back in sync."
            yield Finding(Level.BAD, f"topic {name}", text, advice)


def under_replicated(seen: Snapshot) -> Iterator[Finding]:
    found = [
        (name, each)
        for name, each in _partitions(seen)
        if each.leader_id >= 0 and len(each.in_sync) < len(each.replicas)
    ]
    if found:
        behind = {broker for _, each in found for broker in {*each.replicas} - {*each.in_sync}}
        which = f"broker {min(behind)}: it is" if len(behind) == 1 else f"brokers {some_of(behind)}: they are"
        advice = f"Look at {which} down or slow, or a disk is full. Replicas that run catch up by themselves."
        text = counted(len(found), "partition", "is under-replicated", "are under-replicated")
        yield about_topics(Level.WARNING, {name for name, _ in found}, text, advice)


def preferred_leaders(seen: Snapshot) -> Iterator[Finding]:
    led = [(name, each) for name, each in _partitions(seen) if each.leader_id >= 0 and each.replicas]
    elsewhere = [name for name, each in led if each.leader_id != each.replicas[0] and each.replicas[0] in each.in_sync]
    if led and len(seen.broker_ids) > 1 and len(elsewhere) / len(led) > IMBALANCE_SHARE:
        text = f"{len(elsewhere):,} of {len(led):,} partitions are not led by their preferred replica"
        yield about_topics(Level.NOTE, {*elsewhere}, text, "`tidelog elect` moves them back.")


def replication(seen: Snapshot) -> Iterator[Finding]:
    """Topics whose settings let one failure stop or lose something, in clusters that could do better."""
    brokers = len({*seen.machines.values()})
    if brokers < 2:
        return
    single = {name for name, topic in seen.topics.items() if any(len(each.replicas) < 2 for each in topic.partitions)}
    if single:
        wanted = min(REPLICAS_WANTED, brokers)
        advice = (
            f"A lost disk loses them. `tidelog topic alter TOPIC --replication-factor {wanted}` adds replicas, or "
            f"`tidelog reassign generate --all-topics --replication-factor {wanted}` plans them for all; set "
            "default.replication.factor for new topics."
        )
        yield about_topics(Level.WARNING, single, "have one replica only", advice)
    strict, loose = set(), set()
    for name, topic in seen.topics.items():
        replicas = min((len(each.replicas) for each in topic.partitions), default=0)
        needed = _of_topic(seen.topic_settings.get(name, {}), "min.insync.replicas", 1)
        if replicas > 1 and needed >= replicas:
            strict.add(name)
        if replicas >= REPLICAS_WANTED and needed == 1 and not topic.is_internal:
            loose.add(name)
    if strict:
        text = "min.insync.replicas is as large as the number of replicas: one lost broker stops acks=all"
        advice = "Set min.insync.replicas to one less than the replicas."
        yield about_topics(Level.WARNING, strict, text, advice)
    if loose:
        text = "min.insync.replicas is 1: acks=all may be acknowledged by one broker alone"
        yield about_topics(Level.NOTE, loose, text, "Set min.insync.replicas=2 if no record may be lost.")


def unclean_elections(seen: Snapshot) -> Iterator[Finding]:
    allowed = {
        name
        for name, settings in seen.topic_settings.items()
        if settings.get("unclean.leader.election.enable") == "true"
    }
    if allowed:
        text = "unclean.leader.election.enable is true: a replica that lacks acknowledged records may become leader"
        yield about_topics(Level.WARNING, allowed, text, "Set it to false unless losing records is fine.")


# --- storage ---


def directories(seen: Snapshot) -> Iterator[Finding]:
    for broker, found in seen.log_dirs.items():
        for each in found:
            subject = f"broker {broker}, {each.path}"
            if each.error_code:
                text = "the log directory has failed, and its replicas are offline"
                yield Finding(Level.BAD, subject, text, "Repair or replace the disk and restart the broker.")
            elif each.total_bytes > 0:
                yield from _disk(subject, 1 - each.usable_bytes / each.total_bytes, each.usable_bytes)


def _disk(subject: str, used: float, usable_bytes: int) -> Iterator[Finding]:
    if used >= DISK_FILLING_SHARE:
        level = Level.BAD if used >= DISK_FULL_SHARE else Level.WARNING
        text = f"the disk is {used:.0%} full, {usable_bytes / 1e9:,.1f} GB are left"
        advice = "Lower retention.ms or retention.bytes of large topics, move replicas away, or add a disk."
        yield Finding(level, subject, text, advice)


def temporary_directories(seen: Snapshot) -> Iterator[Finding]:
    for broker, settings in seen.broker_settings.items():
        paths = [each.strip() for each in (settings.get("log.dirs") or "").split(",")]
        temporary = [each for each in paths if each.startswith(_TEMPORARY)]
        if temporary:
            text = f"log.dirs={','.join(temporary)} is emptied when the machine restarts"
            yield Finding(Level.WARNING, f"broker {broker}", text, "Set log.dirs to a directory that is kept.")


# --- settings ---


def open_listeners(seen: Snapshot) -> Iterator[Finding]:
    for broker, settings in seen.broker_settings.items():
        protocols = dict(
            each.strip().partition(":")[::2]
            for each in (settings.get("listener.security.protocol.map") or "").split(",")
            if each.strip()
        )
        for listener in filter(None, map(str.strip, (settings.get("listeners") or "").split(","))):
            name, _, address = listener.partition("://")
            is_open = protocols.get(name, name) == "PLAINTEXT" and not address.startswith(_LOOPBACK)
            if is_open:
                text = f"{listener} serves every host of the network, without encryption or passwords"
                advice = "`tidelog security init` makes certificates and users; or bind it to 127.0.0.1."
                yield Finding(Level.WARNING, f"broker {broker}", text, advice)


def one_machine(seen: Snapshot) -> Iterator[Finding]:
    """Replicas on several cores of one machine are lost together."""
    machines = seen.machines
    if len({*machines.values()}) < 2:
        return
    together = {
        name
        for name, each in _partitions(seen)
        if len(each.replicas) > 1 and len({machines.get(replica, str(replica)) for replica in each.replicas}) == 1
    }
    if together:
        advice = (
            "They are lost together. `tidelog reassign generate` places replicas on different machines; "
            "`tidelog reassign execute` moves them."
        )
        yield about_topics(Level.WARNING, together, "have partitions with all replicas on one machine", advice)


def internal_replication(seen: Snapshot) -> Iterator[Finding]:
    wanted = min(REPLICAS_WANTED, len({*seen.machines.values()}))
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    for broker, settings in seen.broker_settings.items():
        for name in names:
            value = _of_topic(settings, name, wanted)
            if value < wanted:
                text = f"{name}={value}: committed offsets and transactions would not survive a lost broker"
                yield Finding(Level.WARNING, f"broker {broker}", text, f"Set {name}={wanted}.")


def different_settings(seen: Snapshot) -> Iterator[Finding]:
    """Settings that should be the same on every broker."""
    for name in ("default.replication.factor", "authorizer.class.name", "transaction.max.timeout.ms"):
        values: dict[str, list[str]] = {}
        for broker, settings in seen.broker_settings.items():
            values.setdefault(settings.get(name) or "", []).append(str(broker))
        if len(values) > 1:
            each = "; ".join(f"{value or 'not set'} on {', '.join(where)}" for value, where in sorted(values.items()))
            yield Finding(Level.WARNING, "brokers", f"{name} differs: {each}", "Set it to one value and restart.")


def forgotten_throttles(seen: Snapshot) -> Iterator[Finding]:
    if seen.reassignments:
        return
    for broker, settings in seen.broker_settings.items():
        left = [name for name in THROTTLES if (settings.get(name) or "-1") not in ("-1", "9223372036854775807")]
        if left:
            text = f"{', '.join(left)} is set and no reassignment is under way: replicas catch up slowly"
            yield Finding(Level.WARNING, f"broker {broker}", text, "`tidelog reassign verify` removes it.")


# --- groups ---


def lost_positions(seen: Snapshot) -> Iterator[Finding]:
    """Groups whose committed offsets are no longer in the log."""
    for group, committed in seen.committed.items():
        expired = [str(where) for where, offset in committed.items() if offset < seen.starts.get(where, 0)]
        ahead = [str(where) for where, offset in committed.items() if offset > seen.ends.get(where, offset)]
        if expired:
            text = f"records were deleted before it read them, in {some_of(expired)}"
            advice = "Raise retention.ms, or make its consumers faster. It goes on by auto.offset.reset."
            yield Finding(Level.WARNING, f"group {group}", text, advice)
        if ahead:
            text = f"its committed offset is beyond the end of {some_of(ahead)}"
            advice = "The topic was made again, or lost records. `tidelog group reset` sets the offset."
            yield Finding(Level.WARNING, f"group {group}", text, advice)


def stuck_groups(before: Snapshot, after: Snapshot) -> Iterator[Finding]:
    """Groups that rebalanced in both looks, or have records to read and members, and commit nothing."""
    seconds = (after.taken_ms - before.taken_ms) / 1000
    for group, described in after.groups.items():
        earlier = before.groups.get(group)
        if earlier is None:
            continue
        if described.state in _REBALANCING and earlier.state in _REBALANCING:
            text = f"has been rebalancing for at least {seconds:.0f} s ({described.state})"
            advice = "A member does not join within max.poll.interval.ms, or members come and go. See their logs."
            yield Finding(Level.WARNING, f"group {group}", text, advice)
        elif described.members:
            still = sorted(map(str, _still(before, after, group)))
            if still:
                text = f"has records to read in {some_of(still)} and has committed nothing for {seconds:.0f} s"
                advice = "Its handler hangs or fails again and again, or it commits rarely. See the members' logs."
                yield Finding(Level.WARNING, f"group {group}", text, advice)


def _still(before: Snapshot, after: Snapshot, group: str) -> list[TopicPartition]:
    earlier = before.committed.get(group, {})
    assigned = {where for member in after.groups[group].members for where in member.assignment}
    return [
        where
        for where, offset in after.committed.get(group, {}).items()
        if where in assigned and earlier.get(where) == offset < before.ends.get(where, -1)
    ]


# --- transactions ---


def hanging(seen: Snapshot) -> Iterator[Finding]:
    for where, producer in seen.hanging:
        text = f"a transaction of producer {producer.producer_id} is open and no coordinator will end it"
        advice = (
            "read_committed consumers stop before it. `tidelog transactions abort` ends it: "
            f"--topic {where.topic} --partition {where.partition} --start-offset {producer.transaction_start_offset}"
        )
        yield Finding(Level.BAD, str(where), text, advice)


def long_transactions(seen: Snapshot) -> Iterator[Finding]:
    for name, each in seen.transactions.items():
        age_ms = seen.taken_ms - each.start_time_ms
        if each.start_time_ms > 0 and age_ms > 2 * each.timeout_ms:
            text = f"has been open for {age_ms / 1000:,.0f} s, its timeout is {each.timeout_ms / 1000:,.0f} s"
            advice = "Its coordinator should have aborted it: see the log of the broker that leads its partition."
            yield Finding(Level.WARNING, f"transactional id {name}", text, advice)


# --- what could not be read ---


def unread(seen: Snapshot) -> Iterator[Finding]:
    for part, reason in sorted(seen.unread.items()):
        advice = "Checks that need it were left out. Give the user of --command-config DESCRIBE on the cluster."
        yield Finding(Level.NOTE, part, f"could not be read: {reason}", advice)


METADATA_CHECKS: Final[tuple[Check, ...]] = (
    controller,
    leaderless,
    missing_brokers,
    under_replicated,
    preferred_leaders,
)
"""Those that need brokers and topics only."""
CHECKS: Final[tuple[Check, ...]] = (
    *METADATA_CHECKS,
    below_min_in_sync,
    directories,
    hanging,
    long_transactions,
    lost_positions,
    replication,
    one_machine,
    unclean_elections,
    temporary_directories,
    open_listeners,
    internal_replication,
    different_settings,
    forgotten_throttles,
    unread,
)
COMPARISONS: Final[tuple[Comparison, ...]] = (stuck_groups,)
