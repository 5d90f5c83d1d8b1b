# SPDX-License-Identifier: MIT
"""Field cases, group G: child processes. What is started, what is shared, and that all of it
goes.
"""

import concurrent.futures
import subprocess

from kit import processes
from rawclient import RawClient
from .way import case

RELEASED = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]


def assert_all_gone(t, seconds, why):
    begin = t.clock()
    t.wait(
        lambda: not processes.marked(t.mark),
        f"{why}: {[processes.command_line(p) for p in processes.marked(t.mark)]}",
        seconds + 3,
    )  # three seconds of grace for a machine busy with other tests
    return t.clock() - begin


@case("079_child_and_its_shell_killed")
def shell_killed(t, w):
    """Child and wrapper shell are killed: answers flow again after the respawn."""
    client = w.client(wrapper=True)
    server = w.server_pid()
    shell = processes.parent(server)
    processes.kill(shell, "sh")
    processes.kill(server, "stub_server.py")
    processes.wait_gone(server)
    result = client.result(client.call())
    t.true(t.effects()[0]["receipt"] in str(result), f"the real result: {result}")
    t.equal(len(t.lines("starts")), 2, "starts of the server")


@case("091_many_clients_and_reconnects")
def many_clients(t, w):
    """Ten clients at once, then reconnects: nobody crashes, nobody is left."""
    argv = w.argv()

    def one(n):
        client = RawClient(t, argv, name=f"many-{n}")
        client.initialize()
        client.result(client.call(args={"n": n}))
        client.close_stdin()
        return client.process.wait(15)

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(one, range(20)))
    t.equal(set(statuses), {0}, "exit statuses of twenty clean ends")
    t.equal(len(t.effects()), 20, "effects")
    assert_all_gone(t, 2, "processes left")


@case("093_killed_client_leaves_the_other", bare="holds")
def other_client(t, w):
    """SIGKILL to client A's process during client B's call: B's call ends well."""
    script = {"tools": {"charge": {"runs": RELEASED}}}
    one, two = w.client(script), w.client(script)
    ref = two.call(args={"n": 2})
    t.wait_effects(1)
    one.kill("stub_server.py" if w.is_bare else t.surroundings.hapax)
    t.touch("release")
    t.true(t.effects()[0]["receipt"] in str(two.result(ref)), "B's real result")


@case("094_ten_clients_hundred_calls")
def ten_clients(t, w):
    """A thousand calls from ten clients: one child each, no zombie, none left."""
    argv = w.argv({"tools": {"charge": {"runs": [[{"text": "done"}]]}}})
    clients = [RawClient(t, argv, name=f"ten-{n}") for n in range(10)]
    for client in clients:
        client.initialize()
    refs = [(client, client.call(args={"n": n})) for n in range(100) for client in clients]
    for client, ref in refs:
        client.result(ref, 60)
    t.equal(len(t.effects()), 1000, "effects: equal calls of ten clients are all wanted")
    t.equal(len(t.lines("starts")), 10, "starts of the server")
    ours = processes.marked(t.mark)
    t.equal(processes.zombies_of(ours), [], "zombies")
    t.true(len(ours) <= 40, f"front, keeper, reaper, server for each of ten clients: {len(ours)}")
    for client in clients:
        client.close_stdin()
    for client in clients:
        client.process.wait(20)
    assert_all_gone(t, 2, "processes left")


@case("095_one_start_for_fifty_first_calls")
def cold_start(t, w):
    """Fifty parallel first calls after the child has died: exactly one new start."""
    client = w.client({"tools": {"charge": {}}})
    w.kill_server()
    refs = [client.call(args={"n": n}) for n in range(50)]
    for ref in refs:
        t.true(not client.result(ref, 40).get("isError"), "a real result")
    t.equal(len(t.lines("starts")), 2, "starts of the server")
    t.equal(len(t.effects()), 50, "effects")


@case("096_fifty_reconnects")
def fifty_reconnects(t, w):
    """Fifty clients one after the other: one child each, each gone before long, no zombie."""
    argv = w.argv()
    for n in range(50):
        client = RawClient(t, argv, name=f"cycle-{n}")
        client.initialize()
        client.close_stdin()
        t.equal(client.process.wait(15), 0, f"exit status of cycle {n}")
    assert_all_gone(t, 2, "processes left")
    t.equal(len(t.lines("starts")), 50, "starts of the server")


@case("097_dead_child_costs_nothing")
def dead_child(t, w):
    """A dead child and nothing to do: the gateway does not spin."""
    client = w.client()
    keeper = w.keeper(client)
    w.kill_server()
    begin, before = t.clock(), processes.cpu_seconds(keeper)
    t.wait(lambda: t.clock() - begin > 3, "three seconds to pass")
    used = processes.cpu_seconds(keeper) - before
    t.true(used <= 0.06, f"processor time in 3 s with a dead child: {used:.2f} s (2 %)")
    client.result(client.call())


@case("098_end_of_input_ends_everything")
def end_ends_all(t, w):
    """A server that ignores end of input and TERM, under a shell, with a grandchild on its pipes:
    all gone.
    """
    script = {"on_eof": "ignore", "ignore_term": True, "grandchild": True}
    client = w.client(script, wrapper=True)
    client.result(client.call())
    (grandchild,) = t.lines("grandchild")
    t.true(processes.is_alive(int(grandchild)), "the grandchild lives before")
    client.close_stdin()
    seconds = assert_all_gone(t, 2, "processes left after end of input")
    t.true(not processes.is_alive(int(grandchild)), "the grandchild is gone")
    t.note = f"{seconds:.2f} s"


@case("099_gateway_killed_under_a_shell")
def killed_under_shell(t, w):
    """SIGKILL to the front, its child under `sh -c`: the grandchild is gone within 5 s."""
    client = w.client({"on_eof": "ignore"}, wrapper=True)
    client.result(client.call())
    server = w.server_pid()
    client.kill(t.surroundings.hapax)
    client.wait_eof(5)
    assert_all_gone(t, 5, "processes left after SIGKILL to the front")
    t.true(not processes.is_alive(server), "the server is gone")


@case("099_front_and_keeper_killed_under_a_shell")
def both_killed(t, w):
    """SIGKILL to front and keeper at once: the reaper ends the server's whole group."""
    client = w.client({"on_eof": "ignore", "ignore_term": True, "grandchild": True}, wrapper=True)
    client.result(client.call())
    keeper = w.keeper(client)
    client.kill(t.surroundings.hapax)
    if processes.is_alive(keeper):
        processes.kill(keeper, t.surroundings.hapax)
    assert_all_gone(t, 5, "processes left after SIGKILL to front and keeper")


@case("a_killed_reaper_leaves_nobody", prefix="more_", suite="more")
def reaper_killed(t, w):
    """SIGKILL to the reaper alone: the keeper ends what left the session too, and answers go on."""
    client = w.client({"on_eof": "ignore", "ignore_term": True, "grandchild": "apart"})
    client.result(client.call())
    (grandchild,) = t.lines("grandchild")
    server = w.server_pid()
    (reaper,) = t.family(client.pid).others
    processes.kill(reaper, "reaper")
    for pid in (int(grandchild), server):
        processes.wait_gone(pid, 60)
    result = client.result(client.call(args={"n": 2}), 60)
    t.true(t.effects()[1]["receipt"] in str(result), f"the result of the next server: {result}")


@case("stderr_of_the_server_is_relayed", prefix="more_", suite="more")
def stderr_relayed(t, w):
    """What the server says on stderr reaches the client's stderr, but the server does not hold
    that descriptor.
    """
    client = w.client({"start": [{"stderr": "hello from the server"}]})

    def said():
        with open(client.stderr_path, encoding="utf-8") as file:
            return "hello from the server" in file.read()

    t.wait(said, "the server's stderr line on ours")
    t.true(
        not processes.holds_file(w.server_pid(), client.stderr_path),
        "the server holds the client's stderr",
    )


@case("client_is_not_kept_waiting", prefix="more_", suite="more")
def not_kept_waiting(t, w):
    """`hapax run` under a caller that waits for end of file on stdout and stderr: both end with
    the front.
    """
    client = w.client()
    argv = client.argv
    done = subprocess.run(
        argv,
        env=t.env,
        input=b"",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=20,
        check=False,
    )
    t.equal(done.returncode, 0, f"exit status on empty input ({done.stderr[-200:]!r})")
