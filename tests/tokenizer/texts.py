"""Texts to compare tokenizers on: what lies on any machine, and what no corpus has, made from Unicode's own ranges."""
import pathlib
import random
import sys
import unicodedata

ASSIGNED = [chr(code) for code in range(0x110000)
            if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]
SCRIPTS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F), (0x590, 0x5FF),
           (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0x10A0, 0x10FF), (0x1100, 0x11FF),
           (0x1200, 0x137F), (0x1E00, 0x1EFF), (0x2000, 0x206F), (0x2070, 0x209F), (0x20A0, 0x20CF), (0x2100, 0x214F),
           (0x2150, 0x218F), (0x2460, 0x24FF), (0x3000, 0x303F), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
           (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFF00, 0xFFEF), (0x10400, 0x1044F), (0x1D400, 0x1D7FF),
           (0x1F300, 0x1F6FF), (0x20000, 0x2A6DF)]
TRAPS = ["'s", "'S", "'ſ", "'ll", "'LL", "'Re", "''s", " 's", "\r\n", "\n\n ", "  \n", " \t ", "\u3000", "\x85", "\u2028", "é!", "e\u0301!",
         "<left>", " <left>", "<right> ", "word", " word ", "sword", "<both>", "  <both>  ", "<special>", "<|endoftext|>", "<|begin|>",
         "</s>", "<s>", "<unk>", "<0x41>", "▁", "▁▁", " ▁ ", "0", "00", "1234567", "½²", "a1b2", "ﬁ", "ǅ", "İ", "ß", "한", "각", "각",
         "\u200d", "👩‍👩‍👧", "\ufeff", "…", "。", "/", "//\n", "_a_", "\0", "\x7f", "漢字かな", "क्षि", "ไทย"]


def files(patterns, limit):
    """Texts of files that are UTF-8, in a fixed order, up to so many bytes."""
    total = 0
    for folder, pattern in patterns:
        for path in sorted(pathlib.Path(folder).rglob(pattern)):
            if total >= limit or not path.is_file():
                continue
            try:
                text = path.read_bytes().decode()
            except (OSError, UnicodeDecodeError):
                continue
            total += len(text)
            yield text[:limit]


def made_up(draw, limit):
    """Words of single scripts, and of several, with what stands between words."""
    total = 0
    while total < limit:
        first, last = draw.choice(SCRIPTS)
        script = [chr(code) for code in range(first, last + 1)]
        parts = []
        for _ in range(draw.randrange(20, 200)):
            word = "".join(draw.choice(script) for _ in range(min(40, int(draw.expovariate(0.2)) + 1)))
            parts.append(word)
            parts.append(draw.choice([" ", " ", " ", "", "\n", ", ", ".", "  ", "\r\n", "-", "1", "23 ", *TRAPS]))
        text = "".join(parts)
        total += len(text.encode())
        yield text


def mixed(draw, limit):
    """Half from files, half made up, cut anywhere into pieces of up to 8,000 characters."""
    root = pathlib.Path(__file__).resolve().parents[2]
    library = pathlib.Path(sys.prefix) / "lib"
    found = [*files([(root / "docs", "*.md"), (root / "tessera", "*.cpp"), (root / "corpus", "*.txt")], limit // 6),
             *files([(library, "*.py"), ("/usr/include", "*.h"), ("/usr/share/doc", "*"), ("/usr/share/perl", "*.p[lm]")], limit // 3)]
    for text in [*found, *made_up(draw, limit // 2)]:
        at = 0
        while at < len(text):
            length = draw.randrange(1, 8000)
            yield text[at:at + length]
            at += length


def random_strings(draw, count):
    """Of assigned code points, evenly and by script, and of traps."""
    for _ in range(count):
        kind = draw.randrange(3)
        length = draw.randrange(1, 30)
        if kind == 0:
            yield "".join(draw.choice(ASSIGNED) for _ in range(length))
        elif kind == 1:
            yield "".join(chr(draw.randrange(*draw.choice(SCRIPTS))) for _ in range(length))
        else:
            yield "".join(draw.choice([*TRAPS, " ", "\n", "a", "B", "é", "語", "9", "!"]) for _ in range(length))


def code_points(step):
    """Every step-th code point alone and between letters, spaces and digits."""
    for code in range(0, 0x110000, step):
        if not 0xD800 <= code <= 0xDFFF:
            c = chr(code)
            yield c
            yield f"a{c}b {c} 1{c}2 A{c}{c}'s\n{c}e\u0301 {c}{c}\n{c}"


def invalid(draw, count):
    """Bytes that are no UTF-8, among some that are."""
    for _ in range(count):
        parts = [bytes(draw.randrange(256) for _ in range(draw.randrange(1, 6))) if draw.random() < 0.5
                 else draw.choice([*TRAPS, "text "]).encode() for _ in range(draw.randrange(1, 8))]
        yield b"".join(parts)
