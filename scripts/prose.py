"""Finds the prose of the tree: comments and messages of sources, comments of scripts, paragraphs of Markdown."""
import bisect
import re
import subprocess

SOURCES = (".hpp", ".cpp", ".cu", ".def")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r'^((?:[^"/\n]|"(?:[^"\\\n]|\\.)*"|/(?!/))*?)//+ ?(.*)$')
TRIPLE = re.compile(r'"""(.*?)"""', re.S)


class Passage:
    """Adjacent lines of one kind: "comment", "message", or of Markdown "page", "table", "code". `opens` is true for the first prose of a file."""

    def __init__(self, kind, lines, opens=False):
        self.kind, self.opens = kind, opens
        self.text, self.starts, self.numbers = "", [], []
        for number, line in lines:
            self.starts.append(len(self.text))
            self.numbers.append(number)
            self.text += line.strip() + " "

    def line(self, offset):
        return self.numbers[bisect.bisect_right(self.starts, offset) - 1]


def tracked(root):
    """Files that git knows or would add, as paths relative to the root, sorted."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        raise SystemExit(f"git cannot list the files of {root}: {listed.stderr.strip()}")
    return sorted({name for name in listed.stdout.split("\0") if name and (root / name).is_file()})


def is_script(name):
    return name.startswith((".ci/", "scripts/", "cmake/")) and not name.endswith(".txt") or name.endswith((".py", "CMakeLists.txt"))


def is_for_tests(name):
    return name.startswith("tests/") or "/testing/" in name or "_test." in name


def grouped(kind, lines):
    """Passages of lines whose numbers follow each other."""
    run = []
    for number, line in lines:
        if run and (number != run[-1][0] + 1 or not line.strip()):
            yield Passage(kind, run)
            run = []
        if line.strip():
            run.append((number, line))
    if run:
        yield Passage(kind, run)


def of_source(name, lines):
    whole, tails, messages = [], [], []
    for number, line in enumerate(lines, 1):
        found = COMMENT.match(line) if "//" in line else None
        if found and not found.group(1).strip():
            whole.append((number, found.group(2)))
            continue
        if found:
            tails.append((number, found.group(2)))
        code = found.group(1) if found else line
        if '"' in code and not code.lstrip().startswith("#") and not is_for_tests(name):
            messages.append((number, " | ".join(STRING.findall(code))))
    yield from grouped("comment", whole)
    for each in tails:
        yield Passage("comment", [each])
    yield from grouped("message", messages)


def of_script(text, lines):
    for found in TRIPLE.finditer(text):
        first = text.count("\n", 0, found.start()) + 1
        yield from grouped("comment", list(enumerate(found.group(1).splitlines(), first)))
    comments = [(number, line.strip().lstrip("#")) for number, line in enumerate(lines, 1)
                if line.lstrip().startswith("#") and not line.startswith("#!")]
    yield from grouped("comment", comments)


def of_page(lines):
    """Paragraphs, and apart from them each row of a table and each line of a fenced or indented block."""
    paragraphs, apart, fenced = [], [], False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        else:
            kind = "code" if fenced or line.startswith("    ") else "table" if line.startswith("|") else "page"
            (paragraphs if kind == "page" else apart).append((kind, number, line))
    yield from grouped("page", [(number, line) for _, number, line in paragraphs])
    for kind, number, line in apart:
        yield Passage(kind, [(number, line)])


def passages(name, text):
    """The prose of a file of the tree, by its name."""
    lines = text.splitlines()
    if name.endswith(SOURCES):
        found = list(of_source(name, lines))
    elif name.endswith(".md"):
        found = list(of_page(lines))
    elif is_script(name):
        found = list(of_script(text, lines))
    else:
        return []
    found.sort(key=lambda passage: passage.numbers[0])
    if found and found[0].kind == "comment" and found[0].numbers[0] <= 3:
        found[0].opens = True
    return found
