"""Clients without a session: which requests come from the same client."""

from covalt_git.gateway.stateless_clients import StatelessClients


def key(clients: StatelessClients, name: str, number: int, connection: str | None) -> str:
    return clients.sender(name, number, connection).key


def test_requests_that_overtake_each_other_come_from_one_client() -> None:
    clients = StatelessClients()

    keys = {key(clients, "host 1", number, None) for number in (1, 0, 2, 4, 5, 3, 6)}

    assert len(keys) == 1
    assert "" not in keys


def test_connections_distinguish_clients_until_they_are_shared() -> None:
    clients = StatelessClients()
    first, second = (key(clients, "host 1", 1, connection) for connection in "ab")

    assert key(clients, "host 1", 2, "a") == first
    assert key(clients, "host 1", 2, "b") == second
    assert key(clients, "host 1", 3, "c") == ""
    assert key(clients, "other 1", 1, "a") not in {first, second}

    third = key(clients, "host 1", 1, "a")  # a process with two clients shares its connections
    assert third not in {first, second}
    assert key(clients, "host 1", 3, "a") == ""


def test_a_request_on_another_connection_is_uncertain() -> None:
    clients = StatelessClients()
    senders = [clients.sender("host 1", number, on) for number, on in enumerate("aabb")]

    assert len({sender.key for sender in senders}) == 1
    assert [sender.is_certain for sender in senders] == [True, True, False, True]


def test_clients_from_before_a_restart_never_join_each_other() -> None:
    clients = StatelessClients()

    assert [key(clients, "host 1", number, on) for number, on in ((5, "a"), (6, "b"))] == ["", ""]
    assert key(clients, "host 1", 1, "c")
    assert not clients.sender("host 1", 7, "a").is_certain
