"""Clients without a session: which requests come from the same client."""

from covalt_git.gateway.stateless_clients import StatelessClients


def test_requests_that_overtake_each_other_come_from_one_client() -> None:
    clients = StatelessClients()

    keys = {clients.key("host 1", number, None) for number in (1, 0, 2, 4, 5, 3, 6)}

    assert len(keys) == 1
    assert "" not in keys


def test_connections_distinguish_clients_until_they_are_shared() -> None:
    clients = StatelessClients()
    first, second = (clients.key("host 1", 1, connection) for connection in "ab")

    assert clients.key("host 1", 2, "a") == first
    assert clients.key("host 1", 2, "b") == second
    assert clients.key("host 1", 3, "c") == ""
    assert clients.key("other 1", 1, "a") not in {first, second}

    third = clients.key("host 1", 1, "a")  # a process with two clients shares its connections
    assert third not in {first, second}
    assert clients.key("host 1", 3, "a") == ""
