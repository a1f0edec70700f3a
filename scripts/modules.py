"""The modules of the tree, read from the tessera_module lines of CMakeLists.txt."""
import re

MODULE_LINE = re.compile(r"^tessera_module\(\s*([\w/*]+)([^)]*)\)", re.M)


class Module:
    def __init__(self, line, torch, deps, tests=(), is_loose=False):
        self.line, self.torch, self.deps, self.tests, self.is_loose = line, torch, deps, list(tests), is_loose


def words_after(key, words):
    """Returns the words between the key and the next one, as c and d for DEPS in `A B DEPS c d TESTS e`."""
    if key not in words:
        return []
    rest = words[words.index(key) + 1:]
    ends = [i for i, word in enumerate(rest) if word.isupper()]
    return rest[:ends[0]] if ends else rest


def folders(name, root):
    """The modules that a name means: families/* is each folder there."""
    if "*" not in name:
        return [name]
    return sorted(str(path.relative_to(root / "tessera")) for path in (root / "tessera").glob(name) if path.is_dir())


def read_modules(root):
    text = (root / "CMakeLists.txt").read_text()
    modules = {}
    for found in MODULE_LINE.finditer(text):
        words = found.group(2).split()
        deps = [dep for name in words_after("DEPS", words) for dep in folders(name, root)]
        # What one line says of several is not what each of them needs, and the families are named by a .def file.
        is_loose = "*" in found.group(0)
        for name in folders(found.group(1), root):
            modules[name] = Module(text.count("\n", 0, found.start()) + 1, "TORCH" in words, deps,
                                   words_after("TESTS", words), is_loose)
    return modules


def module_of(header, modules):
    """The module of tessera/a/b/c.hpp: a/b if there is one, else a."""
    parts = header.split("/")[1:-1]
    while len(parts) > 1 and "/".join(parts) not in modules:
        parts.pop()
    return "/".join(parts)


def distances(changed, modules):
    """Every module that may behave differently after a change in `changed`, with the length of the shortest chain of
    dependencies that leads there. A module's tests belong to it, so what they include counts too."""
    users = {}
    for name, module in modules.items():
        for other in [*module.deps, *module.tests]:
            users.setdefault(other, []).append(name)
    found = {name: 0 for name in changed if name in modules}
    queue = list(found)
    for name in queue:
        for user in users.get(name, []):
            if user not in found:
                found[user] = found[name] + 1
                queue.append(user)
    return found
