"""Gives every option and key numbers that nobody should: NaN, infinities, negative, empty and very long ones.

Each answer must be success, a refusal (exit code 2) or a no (1), within a minute, 4 GB and 100 KB of messages. The list of commands,
options and keys is what `tessera completion bash` prints, and that of a cluster file what its refusal of an unknown key names, so a new one
is tried without a change here; a new command needs a line in BASES. Runs in a folder that it makes and removes.
"""
import argparse
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

VALUES = ["nan", "inf", "-inf", "-1", "0", "0.5", "1e308", "1e-308", "9223372036854775807", "", "9" * 120_000, "x" * 120_000]
MEGABYTE = "9" * 1_000_000
SECONDS, BYTES, MESSAGE_BYTES, ADDRESS_BYTES = 60, 4e9, 100_000, 64 << 30
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TINY = str(ROOT / "examples/tiny.toml")
CLUSTER = ["--cluster", "H100-80GB-SXM:8", "--answers", "1"]

# What each command is given in addition to the option, and what must be made before: ("run", "pair", "tokenizer", "table", "folder").
BASES = {
    "train": ([TINY, "--dry-run"], ()),
    "verify": ([TINY, "--steps", "2"], ()),
    "simulate": (["--schedule", "1f1b", "--stages", "2"], ()),
    "draw": (["--schedule", "1f1b", "--stages", "2"], ()),
    "plan": ([TINY, *CLUSTER], ()),
    "plan what-if": ([TINY, *CLUSTER, "--with", "link_gbps=x2"], ()),
    "plan evaluate": (["table.csv"], ("table",)),
    "plan calibrate": (["table.csv"], ("table",)),
    "plan memory": ([TINY], ()),
    "bench profile": (["missing.toml"], ()),
    "bench step": ([TINY, "--rounds", "3"], ()),
    "checkpoint inspect": (["run"], ("run",)),
    "checkpoint verify": (["run"], ("run",)),
    "checkpoint reshard": (["CHECKPOINT", "NEW", "--ranks", "2"], ("run",)),
    "checkpoint diff": (["CHECKPOINT", "CHECKPOINT"], ("run",)),
    "checkpoint import": (["folder", "NEW"], ("folder",)),
    "checkpoint export": (["CHECKPOINT", "NEW"], ("run",)),
    "data tokenize": (["text.txt", "--out", "NEW", "--tokenizer", "bytes"], ()),
    "data inspect": (["pair"], ("pair",)),
    "data verify": (["pair"], ("pair",)),
    "data merge": (["pair", "--out", "NEW"], ("pair",)),
    "data sample": (["pair", "--tokenizer", "bytes"], ("pair",)),
    "tokenizer learn": (["text.txt", "--vocabulary", "300", "--out", "NEW"], ()),
    "tokenizer show": (["a", "--tokenizer", "bytes"], ()),
    "generate": (["run", "a", "--tokens", "2"], ("run",)),
    "evaluate": (["run", "--data", "text.txt"], ("run",)),
    "save": (["run"], ("run",)),
    "doctor": ([], ()),
    "completion": (["bash"], ()),
}
# Documented to run until it is ended.
ENDLESS = {("generate", "--chat")}
MADE = {
    "run": ["train", TINY, "training.steps=2", "--out", "run"],
    "pair": ["data", "tokenize", "text.txt", "--out", "pair", "--tokenizer", "bytes"],
}


class Sweep:
    def __init__(self, binary, folder):
        self.binary, self.folder = os.path.abspath(binary), folder
        self.made, self.count, self.faults = set(), 0, []
        (folder / "text.txt").write_text("the cat sat on the mat\n" * 2000)

    def command(self, words):
        """(exit code or -signal, standard output, standard error, bytes held at most)"""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        process = subprocess.Popen([self.binary, *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=limit, start_new_session=True)
        timer = threading.Timer(SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        errors = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        out = process.stdout.read()
        reader.join()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        return os.waitstatus_to_exitcode(status), out, errors[0], usage.ru_maxrss * 1024

    def make(self, what):
        if what in self.made:
            return
        self.made.add(what)
        if what == "folder":
            (self.folder / "folder").mkdir()
        elif what == "table":
            row = "sc-1,H100-80GB-SXM,8,32,4096,11008,32,32,4096,32000,1,1,8,1,1,1,1,64,1,none,0,bf16,{},40,,A\n"
            (self.folder / "table.csv").write_text(
                "id,gpu,n_gpus,layers,hidden,ffn,heads,kv_heads,seq,vocab,tp,pp,dp,cp,ep,vpp,micro_batch,global_batch,zero_stage,"
                "recompute,seq_parallel,precision,step_time_s,memory_gb,notes,quality\n" + "".join(row.format(3 + i) for i in range(5)))
        else:
            code, out, err, _ = self.command(MADE[what])
            assert code == 0, (what, out, err)

    def words_of(self, command):
        base, needs = BASES[command]
        for what in needs:
            self.make(what)
        shutil.rmtree(self.folder / "new", ignore_errors=True)
        for left in self.folder.glob("new*"):
            left.unlink()
        names = {"NEW": "new"}
        if "run" in needs:
            names["CHECKPOINT"] = str(max((self.folder / "run/checkpoints").iterdir()))
        return [*command.split(), *(names.get(word, word) for word in base)]

    def attempt(self, words):
        """Whether it was taken."""
        self.count += 1
        code, _, err, held = self.command(words)
        shown = " ".join(word if len(word) < 100 else f"{word[:40]}...({len(word)})" for word in words)
        for what, is_wrong in ((f"exit code {code}", code not in (0, 1, 2)), (f"{held / 1e9:.1f} GB", held > BYTES),
                               (f"{len(err)} bytes of messages", len(err) > MESSAGE_BYTES),
                               ("no message", code == 2 and not err.strip())):
            if is_wrong:
                self.faults.append(f"{what}: tessera {shown}\n    {err[-300:].decode(errors='replace')}")
                print("FAULT", self.faults[-1], flush=True)
        return code == 0

    def option(self, command, name, value):
        words = self.words_of(command)
        if name in words:  # its value is the base's
            del words[words.index(name):words.index(name) + 2]
        self.attempt([*words, f"{name}={value}"])

    def key(self, name, value):
        """Asked for alone, and if it is taken trained with for a step."""
        if len(value) >= len(MEGABYTE):
            section, own = name.split(".")
            (self.folder / "long.toml").write_text(f"[{section}]\n{own} = {value}\n")
            self.attempt(["plan", "memory", "long.toml"])
        elif self.attempt(["train", TINY, f"{name}={value}", "--dry-run"]) and name not in ("training.steps", "checkpoint.folder"):
            shutil.rmtree(self.folder / "trained", ignore_errors=True)
            self.attempt(["train", TINY, "training.steps=1", f"{name}={value}", "--out", "trained"])

    def cluster_key(self, section, name, value):
        node = '[h]\ndevice = "H100-80GB-SXM"\ncount = 1\n'
        line = f"{name} = {value or chr(34) * 2}\n"
        text = f"[cluster]\n{line}{node}" if section == "cluster" else node.replace("count = 1\n", "" if name == "count" else "count = 1\n") + line
        (self.folder / "cluster.toml").write_text(text)
        self.attempt(["plan", TINY, "--cluster", "cluster.toml", "--answers", "1"])

    def what_if(self, name, value):
        self.attempt([*self.words_of("plan what-if"), "--with", f"{name}={value}"])

    def cases(self):
        """Every case as a function of no arguments."""
        script = self.command(["completion", "bash"])[1].decode()
        keys = re.search(r'keys="([^"]*)"', script).group(1).replace("=", "").split()
        commands = dict(re.findall(r'^    "([^"]+)"\) echo "([^"]*)"', script, re.MULTILINE))
        leaves = [name for name in commands if not any(other.startswith(name + " ") for other in commands) or name == "plan"]
        missing = sorted(set(leaves) - set(BASES))
        assert not missing, f"add what these commands need to BASES: {missing}"
        assert keys and len(leaves) > 20, "the completion script has another form than this program reads"
        for command in leaves:
            for option in commands[command].split():
                if option.startswith("--") and (command, option) not in ENDLESS:
                    for value in VALUES:
                        yield lambda c=command, o=option, v=value: self.option(c, o, v)
        for key in keys:
            for value in [*VALUES, MEGABYTE]:
                yield lambda k=key, v=value: self.key(k, v)
        for section in ("cluster", "h"):
            names = self.cluster_names(section)
            for name in names:
                for value in VALUES:
                    yield lambda s=section, n=name, v=value: self.cluster_key(s, n, v)
        for name in ("devices", "link_gbps", "memory_gb"):
            for value in [*VALUES, "x0", "xnan", "x0.3", "x1e308"]:
                yield lambda n=name, v=value: self.what_if(n, v)

    def cluster_names(self, section):
        (self.folder / "cluster.toml").write_text(f"[{section}]\nno_such_key = 1\n")
        message = self.command(["plan", TINY, "--cluster", "cluster.toml"])[2].decode()
        names = re.search(r"It takes ([\w, ]+)\.", message)
        assert names, message
        return names.group(1).split(", ")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--sample", type=int, help="this many of all cases")
    parser.add_argument("--seed", type=int, default=1, help="decides which (default: 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "corpus").symlink_to(ROOT / "corpus")
        sweep = Sweep(options.binary, pathlib.Path(folder))
        cases = list(sweep.cases())
        print(f"{len(cases)} cases" + (f", {options.sample} of them, seed {options.seed}" if options.sample else ""), flush=True)
        chosen = random.Random(options.seed).sample(cases, options.sample) if options.sample else cases
        for number, case in enumerate(chosen, 1):
            case()
            if number % 200 == 0:
                print(f"{number} of {len(chosen)}, {len(sweep.faults)} faults", flush=True)
    print(f"{sweep.count} commands, {len(sweep.faults)} faults")
    sys.exit(1 if sweep.faults else 0)


if __name__ == "__main__":
    main()
