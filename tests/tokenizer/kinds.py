"""One tokenizer per kind and split pattern, trained by the pip package `tokenizers` on the text that it is given."""
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES


def cased(contractions, numbers):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{contractions}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{contractions}|"
            rf"{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|" + SPACES)


O200K, TEKKEN = cased(CONTRACTIONS + "?", r"\p{N}{1,3}"), cased("", r"\p{N}")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
            + SPACES)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def splits(*patterns):
    return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]


def byte_level(steps, normalizer=None, add_prefix_space=False, use_regex=False, ignore_merges=False, added=()):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    last = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last]) if steps else last
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                  special_tokens=["<|endoftext|>", "<|begin|>"])
    return tokenizer, trainer, [*added]


def by_characters(normalizer=None, pre_tokenizer=None, decoder=None, fallback=True, added=(), **model):
    tokenizer = Tokenizer(models.BPE(byte_fallback=fallback, unk_token="<unk>", **model))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder:
        tokenizer.decoder = decoder
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256) if fallback)]
    trainer = trainers.BpeTrainer(vocab_size=1500, limit_alphabet=600, show_progress=False, special_tokens=special)
    return tokenizer, trainer, [*added]


def metaspace_decoder(strip=1):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*steps, decoders.Strip(" ", strip, 0)] if strip else steps)


LLAMA2 = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
ADDED = [AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True), AddedToken("word", single_word=True),
         AddedToken("é!", normalized=True), AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
         AddedToken("<l", normalized=False), AddedToken("<special>", special=True, normalized=False), AddedToken("  ")]
KINDS = {
    "gpt2": lambda: byte_level([], use_regex=True),
    "gpt2-prefix": lambda: byte_level([], add_prefix_space=True, use_regex=True),
    "llama3": lambda: byte_level(splits(LLAMA3), ignore_merges=True),
    "qwen2": lambda: byte_level(splits(QWEN2), normalizers.NFC()),
    "qwen35": lambda: byte_level(splits(QWEN35), normalizers.NFC()),
    "gpt4o": lambda: byte_level(splits(O200K)),
    "tekken": lambda: byte_level(splits(TEKKEN), ignore_merges=True),
    "deepseek3": lambda: byte_level(splits(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK)),
    "deepseek": lambda: byte_level([*splits("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"),
                                    pre_tokenizers.Digits(individual_digits=True)]),
    "bloom": lambda: byte_level(splits(BLOOM)),
    "starcoder": lambda: byte_level([pre_tokenizers.Digits(individual_digits=True)], use_regex=True),
    "falcon": lambda: byte_level([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Split("0", "merged_with_previous"),
                                  pre_tokenizers.Split(Regex("[0-9]{3}"), "merged_with_next")], use_regex=True),
    "added": lambda: byte_level([], normalizers.NFC(), use_regex=True, added=ADDED),
    "nfkc": lambda: byte_level([pre_tokenizers.Digits(), *splits(LLAMA3)], normalizers.NFKC()),
    "nfd": lambda: byte_level(splits(r"\w+|\W"), normalizers.NFD()),
    "nfkd": lambda: byte_level(splits(r"(?>\d+)(?=\D)|(?<=\s)\S{2,4}?|\b[^\n]|.++|\n"), normalizers.NFKD()),
    "llama2": lambda: by_characters(LLAMA2, decoder=metaspace_decoder(), fuse_unk=True, added=ADDED),
    "gemma": lambda: by_characters(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                                   metaspace_decoder(0), fuse_unk=True),
    "mistral": lambda: by_characters(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                     decoder=metaspace_decoder(), added=ADDED),
    "metaspace": lambda: by_characters(pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace(), fallback=False),
    "words": lambda: by_characters(normalizers.Strip(), pre_tokenizers.Whitespace(), fallback=False, fuse_unk=True),
    "spaces": lambda: by_characters(None, pre_tokenizers.WhitespaceSplit(), fallback=False),
}


def trained_like(split, text, size):
    """What the package's trainer makes where `tessera tokenizer learn --split` is asked."""
    tokenizer = byte_level([], use_regex=True)[0] if split == "gpt2" else byte_level(splits({"llama3": LLAMA3, "qwen2": QWEN2}[split]))[0]
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<|endoftext|>"]))
    return tokenizer


def probe(kind, seed):
    """The same steps around a model in which 20,000 random pairs of bytes merge, in random order: where words end shows in the tokens, for
    which a trained model seldom has any. None for models by characters."""
    tokenizer, _, added = KINDS[kind]()
    if not isinstance(tokenizer.decoder, decoders.ByteLevel):
        return None
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(left, right) for left in alphabet for right in alphabet]
    pairs = random.Random(seed).sample(pairs, 20_000)
    texts = ["<|endoftext|>", "<|begin|>", *alphabet, *(left + right for left, right in pairs)]
    out = Tokenizer(models.BPE(vocab={text: number for number, text in enumerate(texts)}, merges=pairs))
    out.pre_tokenizer, out.decoder = tokenizer.pre_tokenizer, tokenizer.decoder
    if tokenizer.normalizer:
        out.normalizer = tokenizer.normalizer
    out.add_special_tokens(texts[:2])
    out.add_tokens(added)
    return out


def train(kind, texts):
    tokenizer, trainer, added = KINDS[kind]()
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(added)
    begin = "<|begin|>" if tokenizer.token_to_id("<|begin|>") is not None else "<s>"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, tokenizer.token_to_id(begin))])
    return tokenizer
