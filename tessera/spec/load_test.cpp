#include "tessera/spec/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::spec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StrEq;
using testing::ThrowsMessage;

spec::Run parsed(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return parse_unchecked(text, "run.toml", overrides);
}

TEST(Load, UnderstandsTheNamesOfEarlierVersions) {
  const auto run = parse_unchecked("[layout]\nopened = true\nslice_mib = 3\n[data]\npacking = \"best_fit\"",
                                   "a checkpoint");
  EXPECT_TRUE(run.layout.tp_overlap);
  EXPECT_EQ(run.layout.slice_kib, 3 * 1024);
  EXPECT_EQ(run.data.packing, Packing::best_fit);
  EXPECT_EQ(to_text(run).find("opened"), std::string::npos);
  EXPECT_THROW(parse_unchecked("[layout]\nslice_mib = 9223372036854775807", "a checkpoint"), UserError);
}

TEST(Load, AnEmptyFileIsAllDefaults) {
  EXPECT_EQ(parsed(""), spec::Run{});
  EXPECT_EQ(parsed("[model]\n[data]\n"), spec::Run{});
}

TEST(Load, ReadsEveryKindOfValue) {
  const spec::Run run = parsed(R"(
[model]
layers = 12
tied_embeddings = true
rope_theta = 500_000    # an integer serves as a number
[data]
path = "corpus/text \"one\".txt"
[training]
learning_rate = 3e-4
[layout]
schedule = "1f1b"
tp_kind = "2.5d"
)");
  spec::Run expected;
  expected.model.layers = 12;
  expected.model.tied_embeddings = true;
  expected.model.rope_theta = 500'000;
  expected.data.path = "corpus/text \"one\".txt";
  expected.training.learning_rate = 3e-4;
  expected.layout.schedule = "1f1b"_schedule;
  expected.layout.tp_kind = TensorKind::d25;
  EXPECT_EQ(run, expected);
}

TEST(Load, MistakesNameFileLineKeyAndWhatIsAllowed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[model]\nlayers = 2\nhiden = 3\n", "run.toml:3: unknown key model.hiden; did you mean model.hidden?"},
      {"[modle]\nlayers = 2\nheads = 2\n",
       "run.toml:1: unknown section modle; did you mean model? The sections are model, data, training, "
       "evaluation, metrics, checkpoint, layout, cluster."},
      {"[qqqqqqqq]\n",
       "run.toml:1: unknown section qqqqqqqq. The sections are model, data, training, evaluation, metrics, "
       "checkpoint, layout, cluster."},
      {"[model]\nlearning_rate = 1\n",
       "run.toml:2: unknown key model.learning_rate; did you mean training.learning_rate?"},
      {"steps = 3\n", "run.toml:1: unknown key steps; did you mean training.steps?"},
      {"model = 3\n", "run.toml:1: model is a section: write [model] above its keys"},
      {"[model]\n\nlayers = \"four\"\n",
       "run.toml:3: model.layers = \"four\": wants an integer from 1 to 65536"},
      {"[model]\nlayers = 0\n", "run.toml:2: model.layers = 0: wants an integer from 1 to 65536"},
      {"[training]\nsteps = 2.0\n", "run.toml:2: training.steps = 2.0: wants an integer, at least 1"},
      {"[training]\nbeta1 = 1\n", "run.toml:2: training.beta1 = 1: wants a number, at least 0 and below 1"},
      {"[training]\nepsilon = inf\n", "run.toml:2: training.epsilon = inf: wants a number above 0"},
      {"[training]\nepsilon = nan\n", "run.toml:2: training.epsilon = nan: wants a number above 0"},
      {"[cluster]\ntimeout_seconds = 1e-4\n",
       "run.toml:2: cluster.timeout_seconds = 1e-04: wants a number from 0.001 to 1e+07"},
      {"[cluster]\ntimeout_seconds = 1e300\n",
       "run.toml:2: cluster.timeout_seconds = 1e+300: wants a number from 0.001 to 1e+07"},
      {"[layout]\noverlap = 1\n", "run.toml:2: layout.overlap = 1: wants true or false"},
      {"[layout]\nprecision = \"fp8\"\n",
       "run.toml:2: layout.precision = \"fp8\": wants one of fp32, fp64, bf16, fp16"},
      {"[model]\nlayers = [1, 2]\n", "run.toml:2: model.layers = a list: wants an integer from 1 to 65536"},
      {"[model.layers]\nx = 1\n", "run.toml:1: model.layers = a table: wants an integer from 1 to 65536"},
      {"[data]\npath = 1979-05-27\n", "run.toml:2: data.path = a date or time: wants text"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT([&] { parsed(text); }, ThrowsMessage<UserError>(StrEq(message))) << text;
  }
}

TEST(Load, ListsAllMistakesInTheOrderOfTheFile) {
  EXPECT_THAT([] { parsed("[training]\nstep = 1\n[model]\nlayer = 2\nheads = -1\n", {"model.ffn=x"}); },
              ThrowsMessage<UserError>(
                  StrEq("run.toml:2: unknown key training.step; did you mean training.steps?\n"
                        "run.toml:4: unknown key model.layer; did you mean model.layers?\n"
                        "run.toml:5: model.heads = -1: wants an integer from 1 to 1048576\n"
                        "override 'model.ffn=x': model.ffn = x: wants an integer from 1 to 16777216")));
}

TEST(Load, TextThatIsNotTomlIsRefusedWithItsLine) {
  EXPECT_THAT([] { parsed("[model]\nlayers = \n"); },
              ThrowsMessage<UserError>(HasSubstr("run.toml:2: not valid TOML: ")));
  EXPECT_THAT([] { parsed("[model]\nlayers = 1\nlayers = 2\n"); },
              ThrowsMessage<UserError>(HasSubstr("run.toml:3: not valid TOML: ")));
  EXPECT_THROW(parsed("[data]\npath = \"\xff\xfe\"\n"), UserError);
}

TEST(Load, OverridesComeLastAndMayBeBareWords) {
  const spec::Run run =
      parsed("[model]\nlayers = 2\n[layout]\ntp_kind = \"1d\"\n",
             {"model.layers=3", "model.layers=5", "layout.tp_kind=2.5d", "layout.schedule=\"zb-v\"",
              "data.path=a b/#1=2.txt", "training.learning_rate=1e-2", "layout.overlap=false",
              "model.weights=\"quoted \\u00e9\"", "training.steps=1_000"});
  EXPECT_EQ(run.model.layers, 5);
  EXPECT_EQ(run.layout.tp_kind, TensorKind::d25);
  EXPECT_EQ(run.layout.schedule, "zb-v"_schedule);
  EXPECT_EQ(run.data.path, "a b/#1=2.txt");
  EXPECT_EQ(run.training.learning_rate, 1e-2);
  EXPECT_FALSE(run.layout.overlap);
  EXPECT_EQ(run.model.weights, "quoted \xc3\xa9");
  EXPECT_EQ(run.training.steps, 1000);
  EXPECT_EQ(parsed("", {"data.path=123"}).data.path, "123");
  EXPECT_EQ(parsed("[data]\npath = \"x\"", {"data.path="}).data.path, "");
}

TEST(Load, AWrongOverrideIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"model.hiden=3", "override 'model.hiden=3': unknown key model.hiden; did you mean model.hidden?"},
      {"layers=3", "override 'layers=3': unknown key layers; did you mean model.layers?"},
      {"model.layers", "override 'model.layers': wants section.key=value"},
      {"model.layers=", "override 'model.layers=': model.layers = : wants an integer from 1 to 65536"},
      {"training.steps=ten",
       "override 'training.steps=ten': training.steps = ten: wants an integer, at least 1"},
      {"layout.recompute=some",
       "override 'layout.recompute=some': layout.recompute = some: wants one of none, full, selective, "
       "budget"},
      {"data.path=\xff", "override 'data.path=\xff': data.path = \xff: wants text"},
      {"modle.layers=2",
       "override 'modle.layers=2': unknown section modle; did you mean model? The sections are model, data, "
       "training, evaluation, metrics, checkpoint, layout, cluster."},
      {"include=x.toml", "override 'include=x.toml': unknown key include."},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT([&] { parsed("", {text}); }, ThrowsMessage<UserError>(StrEq(message))) << text;
  }
  EXPECT_THROW(parsed("", {"training.steps=1\nother=2"}), UserError);
}

TEST(Load, IncludedFilesAreReadFirstAndRelativeToTheirIncluder) {
  const TestFolder folder;
  folder.write("shared/sizes.toml", "include = \"deeper.toml\"\n[model]\nlayers = 8\nhidden = 512\n");
  folder.write("shared/deeper.toml", "[model]\nlayers = 7\nffn = 99\n");
  folder.write("second.toml", "[model]\nhidden = 768\nheads = 12\n");
  const auto path = folder.write(
      "run.toml", "include = [\"shared/sizes.toml\", \"second.toml\"]\n[model]\nheads = 6\nkv_heads = 6\n");
  const spec::Run run = load(path, std::vector<std::string>{"model.vocab=300"});
  EXPECT_EQ(run.model.layers, 8);
  EXPECT_EQ(run.model.ffn, 99);
  EXPECT_EQ(run.model.hidden, 768);
  EXPECT_EQ(run.model.heads, 6);
  EXPECT_EQ(run.model.vocab, 300);
}

TEST(Load, FilesAreLookedForBesideTheRunFileFirst) {
  const TestFolder folder;
  folder.write("texts/a.txt", "a");
  const auto path =
      folder.write("run.toml", "[data]\npath = \"texts/a.txt\"\n[layout]\nschedule_file = \"gone.csv\"\n");
  const spec::Run run = load(path);
  EXPECT_EQ(run.data.path, (folder.path() / "texts/a.txt").string());
  EXPECT_EQ(run.layout.schedule_file, "gone.csv") << "from the working folder";
  EXPECT_EQ(load(path, std::vector<std::string>{"data.path=texts/a.txt"}).data.path, "texts/a.txt")
      << "what is typed is meant from the working folder";
}

TEST(Load, AFileMayBeIncludedTwiceButNotByItself) {
  const TestFolder folder;
  folder.write("base.toml", "[model]\nlayers = 3\n");
  folder.write("left.toml", "include = \"base.toml\"\n");
  EXPECT_EQ(load(folder.write("run.toml", "include = [\"base.toml\", \"left.toml\"]\n")).model.layers, 3);
  folder.write("a.toml", "# first\ninclude = \"b.toml\"\n");
  folder.write("b.toml", "include = \"./a.toml\"\n");
  EXPECT_THAT([&] { load(folder.path() / "a.toml"); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("b.toml:1: include of ./a.toml makes a circle"))));
}

TEST(Load, AKeyOfManyPartsIsRefusedBeforeItIsBuilt) {
  std::string parts = "a";
  for (int i = 0; i < 200'000; ++i) parts += ".a";
  const std::string brackets(200'000, '[');
  for (const std::string& deep :
       {cat("\n", parts, " = 1\n"), cat("\n[", parts, "]\n"), cat("\nx = {", parts, " = 1}\n"),
        cat("\nx = ", brackets, "\n"), cat("\n\"\\\"\".", parts, " = 1\n")})
    EXPECT_THAT([&] { parsed(deep); }, ThrowsMessage<UserError>(HasSubstr("run.toml:2: is nested deeper")))
        << deep.substr(0, 20);
  EXPECT_THROW(parsed("", {cat("model.layers={", parts, "=1}")}), UserError);
  EXPECT_THROW(parsed("", {cat(parts, "=1")}), UserError);
}

TEST(Load, OnlyTextsAndCommentsHaveLettersThatAreNotAscii) {
  EXPECT_THAT(
      [] { parsed("\n[model]\nlayers \u00bd 2\n"); },
      ThrowsMessage<UserError>(HasSubstr("run.toml:3: has a character outside of quotes that is not ASCII")));
  EXPECT_EQ(parsed("\xef\xbb\xbf# \u00bd\n[data]\npath = \"\u00bd\"\n").data.path, "\u00bd");
}

TEST(Load, WhatTheParserAssertsIsAUserErrorToo) {
  EXPECT_THAT([] { parsed("[[&"); }, ThrowsMessage<UserError>(HasSubstr("run.toml: not valid TOML")));
}

TEST(Load, DotsAndBracketsWithinTextsAndCommentsAreNotNesting) {
  const std::string dots(100, '.'), brackets(100, '[');
  EXPECT_EQ(
      parsed(cat("# ", dots, brackets, "\n[data]\npath = \"", dots, "\\\"", brackets, "\"\n")).data.path,
      cat(dots, "\"", brackets));
  EXPECT_EQ(parsed(cat("data.path = '", dots, "\"", brackets, "'")).data.path, cat(dots, "\"", brackets));
  EXPECT_EQ(parsed(cat("data.path = \"\"\"", dots, "\n", brackets, "\"\"\"\"\"\n")).data.path,
            cat(dots, "\n", brackets, "\"\""));
  EXPECT_EQ(parsed("training = {learning_rate = 0.1, min_learning_rate = 0.01, beta1 = 0.5, beta2 = 0.5, "
                   "epsilon = 0.1, "
                   "weight_decay = 0.1, momentum = 0.1, clip_norm = 0.5, loss_scale_start = 2.0}")
                .training.beta1,
            0.5);
}

// Each file includes the next one twice: 2^30 files without a bound.
TEST(Load, IncludesThatDoubleEndInASentence) {
  const TestFolder folder;
  for (int i = 0; i < 30; ++i)
    folder.write(cat(i, ".toml"), cat("include = [\"", i + 1, ".toml\", \"", i + 1, ".toml\"]\n"));
  folder.write("30.toml", "");
  EXPECT_THAT([&] { load(folder.path() / "0.toml"); },
              ThrowsMessage<UserError>(HasSubstr("more than 64 files are included")));
}

TEST(Load, AFileOfAnotherKindIsRefusedByItsSize) {
  const TestFolder folder;
  const std::string comment = cat("# ", std::string(600'000, 'x'), "\n");
  const auto path = folder.write("run.toml", cat("include = \"more.toml\"\n", comment));
  folder.write("more.toml", "");
  EXPECT_EQ(load(path), spec::Run{});
  folder.write("more.toml", comment);
  EXPECT_THAT([&] { load(path); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("more.toml: "), HasSubstr("1048576 bytes in all"))));
  EXPECT_THAT([&] { load("/dev/zero"); }, ThrowsMessage<UserError>(HasSubstr("1048576 bytes in all")));
}

TEST(Load, OfVeryManyMistakesTheFirstAreListed) {
  std::string text = "[model]\n";
  for (int i = 0; i < 100'000; ++i) text += cat("k", i, "=1\n");
  EXPECT_THAT([&] { parsed(text); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("run.toml:21: unknown key model.k19"),
                                             HasSubstr("Mistakes after these are not listed"),
                                             testing::Not(HasSubstr("run.toml:22:")))));
}

TEST(Load, ATextIncludesNothing) {
  EXPECT_THAT(
      [] { parsed("include = \"/etc/passwd\"\n"); },
      ThrowsMessage<UserError>(HasSubstr("run.toml:1: include of /etc/passwd: a run file that is kept in")));
}

TEST(Load, FilesThatCannotBeReadAreNamedWithTheirIncluder) {
  const TestFolder folder;
  EXPECT_THAT([&] { load(folder.path() / "none.toml"); }, ThrowsMessage<UserError>(HasSubstr("none.toml")));
  EXPECT_THAT([&] { load(folder.path()); }, ThrowsMessage<UserError>(HasSubstr("cannot read the run file")));
  const auto path = folder.write("run.toml", "\ninclude = \"gone.toml\"\n");
  EXPECT_THAT(
      [&] { load(path); },
      ThrowsMessage<UserError>(AllOf(HasSubstr("run.toml:2: include: cannot read"), HasSubstr("gone.toml"))));
  EXPECT_THAT(
      [] { parsed("include = 3\n"); },
      ThrowsMessage<UserError>(StrEq("run.toml:1: include = 3: wants a file name or a list of them")));
  EXPECT_THROW(parsed("include = [\"a.toml\", 3]\n"), UserError);
  EXPECT_EQ(load(folder.write("empty.toml", "")), spec::Run{});
}

// Any value a key takes, small and large alike.
Value random_value(const Key& key, std::uint64_t seed, std::uint64_t stream) {
  const auto bits = [&](std::uint64_t index) { return random_bits(seed, stream, index); };
  switch (key.kind) {
    case Kind::boolean:
      return bits(0) % 2 == 0;
    case Kind::integer: {
      const auto least = static_cast<std::int64_t>(key.range.least);
      const double span = std::min(key.range.most - key.range.least, 9e18);
      return least +
             static_cast<std::int64_t>(bits(0) % (static_cast<std::uint64_t>(span) + 1) >> bits(1) % 63);
    }
    case Kind::number: {
      const double exponent = std::floor(random_uniform(seed, stream, 1) * 600 - 300);
      const double wide = (random_uniform(seed, stream, 0) + 0.1) * std::pow(10, exponent);
      const double whole = static_cast<double>(bits(2) >> bits(3) % 64);
      const double x = bits(4) % 2 ? wide : whole;
      return key.range.holds(x)
                 ? x
                 : std::max(0.0, key.range.least) + random_uniform(seed, stream, 5) * 0.5 + 0.25;
    }
    case Kind::text: {
      static const std::vector<std::string> kPieces = {
          "a",   "\"", "\\",     "\n",   "\t",      "\r", std::string(1, '\0'),
          "'",   "#",  "\x7f",   "\x1b", "é",       "漢", "\U0001F600",
          "\\u", "=",  "\"\"\"", " ",    "[model]", "\b", "\f"};
      std::string out;
      for (std::uint64_t i = 0; i < bits(6) % 12; ++i) out += kPieces[bits(7 + i) % kPieces.size()];
      return out;
    }
    case Kind::word:
      return key.words[bits(0) % key.words.size()];
  }
  return false;
}

TEST(Load, EmbeddingsOfGpt2AreTiedUnlessTheFileSaysOtherwise) {
  EXPECT_FALSE(parsed("").model.tied_embeddings);
  EXPECT_TRUE(parsed("[model]\nfamily = \"gpt2\"\n").model.tied_embeddings);
  EXPECT_FALSE(parsed("[model]\ntied_embeddings = false\nfamily = \"gpt2\"\n").model.tied_embeddings);
  const std::vector<std::string> overrides = {"model.family=gpt2"};
  EXPECT_TRUE(parse_unchecked("[model]\nfamily = \"llama\"\n", "run.toml", overrides).model.tied_embeddings);
}

TEST(Load, WhatIsPrintedReadsBackEqual) {
  const char* given = std::getenv("TESSERA_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 7;
  SCOPED_TRACE(cat("TESSERA_SEED=", seed));
  EXPECT_EQ(parsed(to_text(spec::Run{})), spec::Run{});
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    spec::Run run;
    for (std::size_t k = 0; k < schema().size(); ++k) {
      const auto& key = schema()[k];
      const Value value = random_value(key, seed, trial * 1000 + k);
      ASSERT_EQ(fitted(key, value), value) << key.full() << " = " << value_text(value);
      key.set(run, value);
    }
    run.layout.dp_ranks = 0;  // as in every run that was read
    ASSERT_EQ(parsed(to_text(run)), run) << to_text(run);
    EXPECT_EQ(parsed(to_short_text(run)), run) << to_short_text(run);
  }
}

// A folder with two layers of 64 channels, which takes 128 positions.
std::optional<Described> described(const Model& asked) {
  if (asked.weights != "folder") return std::nullopt;
  return Described{
      {.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .qk_norm = true}, 128, "folder/config.json"};
}

TEST(Load, DpStandsForShardsOrReplicasAsZeroSays) {
  const auto layout = [](const std::vector<std::string>& overrides) { return parsed("", overrides).layout; };
  EXPECT_EQ(layout({"layout.dp=4"}), (Layout{.dp_replicate = 4}));
  EXPECT_EQ(layout({"layout.dp=4", "layout.zero=3"}), (Layout{.dp_shard = 4, .zero = 3}));
  EXPECT_EQ(layout({"layout.dp=1", "layout.zero=3"}), (Layout{.zero = 3}));
  EXPECT_EQ(parsed("[layout]\ndp = 4\nzero = 1\n", {"layout.dp=2"}).layout,
            (Layout{.dp_shard = 2, .zero = 1}));
  EXPECT_THAT(
      [&] {
        layout({"layout.dp=4", "layout.dp_shard=2"});
      },
      ThrowsMessage<UserError>(StrEq("layout.dp = 4 stands for layout.dp_replicate, and layout.dp_replicate "
                                     "= 1 and layout.dp_shard = 2 are "
                                     "given too: write dp or these two")));
}

TEST(Load, WhatTheWeightsSayOfTheModelStandsInForItsKeys) {
  const spec::Run run = parse_unchecked(
      "[model]\nweights = 'folder'\nlayers = 2\nhead_dim = 16\ndropout = 0.1\n", "run.toml", {}, described);
  EXPECT_EQ(run.model.hidden, 64);
  EXPECT_TRUE(run.model.qk_norm);
  EXPECT_EQ(run.model.dropout, 0.1);
  EXPECT_EQ(run.model.weights, "folder");
  EXPECT_EQ(run.model.sequence, 128) << "no more than there are positions";
  EXPECT_EQ(parse_unchecked("[model]\nweights = 'file'\n", "run.toml", {}, described).model.hidden,
            Model{}.hidden);
}

TEST(Load, AKeyThatContradictsTheWeightsIsAMistakeThatNamesBoth) {
  const std::vector<std::string> overrides = {"model.weights=folder", "model.sequence=129"};
  EXPECT_THAT(
      [&] { parse_unchecked("[model]\nhidden = 32\nqk_norm = false\n", "run.toml", overrides, described); },
      ThrowsMessage<UserError>(
          StrEq("run.toml:2: model.hidden = 32 contradicts folder/config.json, which says 64: leave it "
                "out, or take "
                "other weights\n"
                "run.toml:3: model.qk_norm = false contradicts folder/config.json, which says true: leave "
                "it out, or "
                "take other weights\n"
                "model.sequence = 129 is above the 128 positions that folder/config.json allows: write "
                "model.sequence = 128 or less")));
}

TEST(Load, LayoutMayBeLeftToThePlanner) {
  EXPECT_TRUE(parse_unchecked("layout = \"auto\"\n[model]\nlayers = 2\n", "run.toml").layout.automatic);
  EXPECT_FALSE(parse_unchecked("[model]\nlayers = 2\n", "run.toml").layout.automatic);
  EXPECT_THROW(parse_unchecked("layout = \"best\"\n", "run.toml"), UserError);
}

TEST(Load, WhatDoesNotGoTogetherIsRefusedHereAndNotByTheCommandAlone) {
  const auto complaint = [](const char* text) { return complaint_of([&] { parse(text, "run.toml"); }); };
  EXPECT_THAT(complaint("[layout]\ntp = 7\n"), HasSubstr("layout.tp = 7"));
  EXPECT_THAT(complaint("[model]\nhidden = 250\n"), HasSubstr("model.hidden = 250"));
  EXPECT_THAT(complaint("[layout]\npp = 1048576\ndp_shard = 1048576\ncp = 1048576\ntp = 1048576\n"),
              HasSubstr("makes more than 1048576 ranks"));
  EXPECT_EQ(complaint("[cluster]\ntransport = 'nccl'\n[layout]\nprecision = 'fp32'\n"), "");
  EXPECT_NE(complaint_of([] { parse("[cluster]\ntransport = 'nccl'\n", "run.toml", {}, nullptr, Build{}); }),
            "");
}

TEST(Load, UnequalMicroBatchesCountByTheirMost) {
  spec::Run run;
  run.layout.dp_replicate = 2, run.layout.micro_batches_by_rank = "3,1", run.training.global_batch = 4;
  EXPECT_EQ(run.num_micro_batches(), 3);
  EXPECT_EQ(split_numbers("3, 1"), (std::vector<std::int64_t>{3, 1}));
  EXPECT_FALSE(split_numbers("3,x"));
  EXPECT_FALSE(split_numbers("-1"));
}

}  // namespace
}  // namespace tessera::spec
