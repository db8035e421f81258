"""Every fault is the fault it says it is, and ends when it is told to."""

from __future__ import annotations

import threading
import time

import pytest

from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.process import wait_until
from gossamer.testing.resp import Frames, RespConnection, command
from gossamer.testing.servers import Server


def connect(proxy: FaultProxy, timeout: float = 20.0) -> RespConnection:
    return RespConnection(("127.0.0.1", proxy.port), timeout)


def test_without_faults_everything_passes_and_is_counted(fault_proxy: FaultProxy, crawl_name: str) -> None:
    big = "x" * 500_000
    with connect(fault_proxy) as client:
        client.call("SET", crawl_name, big)
        assert client.call("GET", crawl_name) == big
        counters = fault_proxy.counters
    assert (counters.connections, counters.open, counters.round_trips, counters.requests, counters.replies) == (
        1,
        1,
        2,
        2,
        2,
    )
    assert counters.bytes_up > len(big)
    assert counters.bytes_down > len(big)
    wait_until(lambda: fault_proxy.counters.open == 0, "the connection to be forgotten")


def test_delay_holds_each_way_for_its_time(fault_proxy: FaultProxy) -> None:
    with connect(fault_proxy) as client:
        client.call("PING")
        fault_proxy.delay(0.1)
        begin = time.monotonic()
        client.call("PING")
        assert time.monotonic() - begin >= 0.2


def test_cut_resets_present_connections_and_serves_new_ones(fault_proxy: FaultProxy) -> None:
    with connect(fault_proxy) as client:
        client.call("PING")
        fault_proxy.cut()
        with pytest.raises(ConnectionError):
            client.call("PING")
    with connect(fault_proxy) as client:
        assert client.call("PING") == "PONG"


def test_refuse_turns_new_connections_away_and_keeps_the_present(fault_proxy: FaultProxy) -> None:
    with connect(fault_proxy) as present:
        present.call("PING")
        port = fault_proxy.port
        fault_proxy.refuse()
        fault_proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(fault_proxy)
        assert present.call("PING") == "PONG"
        fault_proxy.heal()
        assert fault_proxy.port == port
        with connect(fault_proxy) as late:
            assert late.call("PING") == "PONG"


def test_half_open_swallows_on_new_and_present_connections(
    fault_proxy: FaultProxy, valkey_server: Server, crawl_name: str
) -> None:
    with connect(fault_proxy, 0.3) as present:
        present.call("PING")
        fault_proxy.half_open()
        with pytest.raises(TimeoutError):
            present.call("SET", crawl_name, "x")
        with connect(fault_proxy, 0.3) as new, pytest.raises(TimeoutError):
            new.call("SET", crawl_name, "x")
        fault_proxy.heal()
        with connect(fault_proxy) as late:
            assert late.call("PING") == "PONG"
    assert valkey_server.call("EXISTS", crawl_name) == 0


def test_lost_reply_means_executed_but_unknown(fault_proxy: FaultProxy, valkey_server: Server, crawl_name: str) -> None:
    with connect(fault_proxy) as client:
        client.call("PING")
        fault_proxy.lose_replies(1)
        with pytest.raises(ConnectionError):
            client.call("INCR", crawl_name)
    assert valkey_server.call("GET", crawl_name) == "1"
    with connect(fault_proxy) as client:
        assert client.call("INCR", crawl_name) == 2
    assert fault_proxy.counters.lost == 1


def test_lost_request_means_not_executed(fault_proxy: FaultProxy, valkey_server: Server, crawl_name: str) -> None:
    fault_proxy.lose_requests(2)
    for _ in range(2):
        with connect(fault_proxy) as client, pytest.raises(ConnectionError):
            client.call("INCR", crawl_name)
    with connect(fault_proxy) as client:
        assert client.call("INCR", crawl_name) == 1


def test_only_matching_requests_are_lost(fault_proxy: FaultProxy, valkey_server: Server, crawl_name: str) -> None:
    fault_proxy.lose_replies(1, match=b"INCR")
    with connect(fault_proxy) as client:
        assert client.call("PING") == "PONG"
        with pytest.raises(ConnectionError):
            client.call("INCR", crawl_name)
    assert valkey_server.call("GET", crawl_name) == "1"


def test_a_pipeline_is_cut_at_the_lost_reply(fault_proxy: FaultProxy, valkey_server: Server, crawl_name: str) -> None:
    fault_proxy.lose_replies(1, match=b"DECR")
    with connect(fault_proxy) as client:
        pipeline = command("INCR", crawl_name) + command("DECR", crawl_name) + command("SET", crawl_name, "late")
        client._socket.sendall(pipeline)
        assert client._read() == 1
        with pytest.raises(ConnectionError):
            client._read()
    assert valkey_server.call("GET", crawl_name) == "0"
    assert fault_proxy.counters.round_trips == 1


def test_stall_holds_everything_and_resume_delivers_it(
    fault_proxy: FaultProxy, valkey_server: Server, crawl_name: str
) -> None:
    with connect(fault_proxy) as client:
        client.call("PING")
        fault_proxy.stall()
        answers: list[object] = []
        waiting = threading.Thread(target=lambda: answers.append(client.call("INCR", crawl_name)))
        waiting.start()
        wait_until(lambda: fault_proxy.counters.requests == 2, "the request to reach the proxy")
        assert valkey_server.call("EXISTS", crawl_name) == 0
        assert not answers
        fault_proxy.resume()
        waiting.join(20)
        assert answers == [1]


def test_a_dead_server_closes_the_connection_and_refuses_until_it_is_back() -> None:
    with Server() as server, FaultProxy(server.port) as proxy:
        with connect(proxy) as client:
            client.call("PING")
            server.kill()
            with pytest.raises(ConnectionError):
                client.call("PING")
        # The reset may come while the client still connects.
        with pytest.raises(ConnectionError), connect(proxy) as client:
            client.call("PING")
        server.restart()
        with connect(proxy) as client:
            assert client.call("PING") == "PONG"


def test_many_threads_may_switch_faults_while_clients_work(fault_proxy: FaultProxy, crawl_name: str) -> None:
    done = threading.Event()

    def disturb() -> None:
        while not done.is_set():
            fault_proxy.cut()
            fault_proxy.lose_replies(1)
            fault_proxy.heal()

    threads = [threading.Thread(target=disturb) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            try:
                with connect(fault_proxy) as client:
                    client.call("INCR", crawl_name)
            except ConnectionError:
                continue
    finally:
        done.set()
        for thread in threads:
            thread.join(20)
    fault_proxy.heal()
    with connect(fault_proxy) as client:
        assert int(str(client.call("GET", crawl_name) or 0)) <= 30


def test_frames_are_the_same_however_the_stream_is_cut() -> None:
    values = [
        command("SET", "key", "a\r\nb"),
        b"+OK\r\n",
        b"-ERR no\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n*2\r\n:1\r\n$0\r\n\r\n_\r\n",
        b"%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n#t\r\n",
        b"|1\r\n+ttl\r\n:3\r\n,1.5\r\n",
        b">2\r\n+message\r\n=6\r\ntxt:ab\r\n",
    ]
    stream = b"".join(values)
    for size in (1, 2, 3, 7, len(stream)):
        frames = Frames()
        assert [value for at in range(0, len(stream), size) for value in frames.feed(stream[at : at + size])] == values


def test_a_foreign_stream_is_handed_on_as_it_comes() -> None:
    frames = Frames()
    assert frames.feed(b"\x16\x03\x01hello") == [b"\x16\x03\x01hello"]
    assert frames.feed(b"*1\r\n") == [b"*1\r\n"]
