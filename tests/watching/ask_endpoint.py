"""Does the endpoint answer what it should, and nothing else? Usage: ask_endpoint.py command...; starts the command, which
prints the address before its first step, and ends it."""
import re
import subprocess
import sys
import urllib.error
import urllib.request


def ask(url, method="GET"):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def listening_addresses(port):
    """Of sockets of any protocol version that listen on the port, as the kernel writes them."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as rows:
            for row in list(rows)[1:]:
                local, state = row.split()[1], row.split()[3]
                if state == "0A" and int(local.split(":")[1], 16) == port:
                    found.append(local.split(":")[0])
    return found


run = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
try:
    while not (url := re.fullmatch(r"metrics at (http://127\.0\.0\.1:(\d+)/metrics)\n", line := run.stdout.readline())):
        assert line and not line.startswith("step "), f"no address before the first step: {line!r}"
    address, port = url.group(1), int(url.group(2))
    while not re.match(r"step +3/", line := run.stdout.readline()):
        assert line, "the run ended before step 3"
    assert listening_addresses(port) == ["0100007F"], listening_addresses(port)

    status, page = ask(address)
    assert status == 200, status
    values = dict(re.findall(r"^(tessera_\w+) (\S+)$", page, re.MULTILINE))
    assert float(values["tessera_steps_total"]) >= 2, values
    assert float(values["tessera_tokens_total"]) == 4 * 128 * float(values["tessera_steps_total"]), values
    for name in ("loss", "gradient_norm", "learning_rate", "tokens_per_second", "step_seconds", "resident_bytes_max",
                 "model_flop_utilisation"):
        assert float(values["tessera_" + name]) > 0, name
        assert f"# HELP tessera_{name} " in page and f"# TYPE tessera_{name} gauge" in page, page
    assert values["tessera_steps_not_taken_total"] == "0", values

    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "MKCOL", "PROPFIND", "TRACE"):
        status, _ = ask(address, method)
        assert status == 405, f"{method}: {status}"
    for path in ("/", "/metrics/", "/metrics/x", "/etc/passwd", "/../../etc/passwd", "/metrics.html"):
        status, _ = ask(f"http://127.0.0.1:{port}{path}")
        assert status == 404, f"{path}: {status}"

    # In a folder of its own: that of the first is locked.
    command = [word + "-second" if before == "--out" else word for before, word in zip([""] + sys.argv[1:], sys.argv[1:])]
    second = subprocess.run(command[:-1] + [f"metrics.listen=127.0.0.1:{port}"], capture_output=True, text=True)
    assert second.returncode == 2, second
    assert f"metrics.listen = 127.0.0.1:{port}" in second.stderr and "Name another one" in second.stderr, second.stderr
    assert "step " not in second.stdout, second.stdout
finally:
    run.kill()
    run.wait()
print("the endpoint answers GET /metrics on the loopback address, and nothing else")
