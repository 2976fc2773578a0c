"""No API is served without a decision about who may use it."""

from tidelog.broker.handlers import broker_handlers, forwarded_handlers, handlers, own_handlers
from tidelog.broker.security.demands import NOTHING, ON_CLUSTER, ON_RESOURCES
from tidelog.broker.topology.member import MemberPlan
from tidelog.broker.topology.quorum_forwarding import FORWARDED
from tidelog.security.acls import OPERATIONS, AclOperation, AclResourceType

ROUTES = {
    **handlers(),
    **broker_handlers(MemberPlan.apis),
    **forwarded_handlers(FORWARDED),
    **own_handlers(),
}


def test_every_route_demands_something_or_is_said_to_demand_nothing() -> None:
    assert [route.api_key.name for key, route in ROUTES.items() if not _is_listed(key)] == []


def test_no_api_is_listed_twice() -> None:
    assert not set(ON_CLUSTER) & set(ON_RESOURCES)
    assert not NOTHING & {*ON_CLUSTER, *ON_RESOURCES}


def test_what_is_demanded_can_be_allowed() -> None:
    for operation in ON_CLUSTER.values():
        assert operation in OPERATIONS[AclResourceType.CLUSTER]
    for demands in ON_RESOURCES.values():
        for operation, resource_type in demands:
            assert operation in OPERATIONS[resource_type]
    assert AclOperation.ALL not in ON_CLUSTER.values()


def test_a_refusal_of_a_whole_request_has_room_in_the_response() -> None:
    for key in ON_CLUSTER:
        route = ROUTES[key]
        route.load()
        assert "error_code" in route.response_class.fields, route.api_key.name


def _is_listed(key: int) -> bool:
    return key in ON_CLUSTER or key in ON_RESOURCES or key in NOTHING
