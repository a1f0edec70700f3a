#include "tessera/train/session.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/safetensors.hpp"
#include "tessera/collective/threads.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/program/generate.hpp"
#include "tessera/tensor/flop_count.hpp"

namespace tessera::train {
namespace {

spec::Run small_run(std::int64_t dp) {
  spec::Run run;
  run.model = {.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 48, .vocab = 61, .sequence = 12};
  run.training.global_batch = 8;
  run.training.warmup_steps = 2;
  run.layout.dp_replicate = dp;
  run.layout.micro_batch = 2;
  return run;
}

spec::Run small_gpt2_run(std::int64_t dp) {
  spec::Run run = small_run(dp);
  run.model.family = spec::Family::gpt2;
  run.model.kv_heads = run.model.heads;
  return run;
}

std::vector<double> losses(const spec::Run& run, int steps) {
  std::vector<double> out;
  collective::run_ranks(static_cast<int>(run.layout.ranks()),
                        [&](const collective::Communicator& communicator) {
                          Session session(run, communicator, random_source(run.model));
                          for (int i = 0; i < steps; ++i) {
                            const auto report = session.step();
                            if (communicator.rank() == 0) out.push_back(report.loss);
                          }
                        });
  return out;
}

TEST(Session, AStepThatIsNotFiniteIsTakenOnNoRank) {
  const auto run = small_run(2);
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(run, communicator, random_source(run.model));
    session.step();
    std::vector<tensor::Tensor> before;
    for (auto& bucket : session.buckets()) before.push_back(bucket.shard().clone());
    // Only rank 1 computes with a weight that overflows.
    if (communicator.rank() == 1)
      session.buckets()[1].shard().select(0, 0).fill_(std::numeric_limits<float>::infinity());
    const auto report = session.step();
    if (communicator.rank() == 1) session.buckets()[1].shard().select(0, 0).copy_(before[1].select(0, 0));
    EXPECT_FALSE(report.taken) << "rank " << communicator.rank();
    EXPECT_EQ(session.updates(), 1);
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(tensor::bit_equal(before[i], session.buckets()[i].shard()));
    const double rate = session.learning_rate();
    EXPECT_TRUE(session.step().taken);
    EXPECT_EQ(session.learning_rate(), rate) << "the learning rate waits for the update that was not taken";
    EXPECT_EQ(session.updates(), 2);
  });
}

TEST(Session, MovesTheSampleCursorPastAStepThatWasNotTaken) {
  const auto run = small_run(1);
  std::vector<std::uint64_t> firsts;
  const Source source = [&, random = random_source(run.model)](auto samples, auto tokens, auto targets) {
    if (samples.front() % 8 == 0) firsts.push_back(samples.front());
    random(samples, tokens, targets);
  };
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(run, alone, source);
    const double saved = session.buckets()[1].shard().select(0, 0).item<double>();
    session.buckets()[1].shard().select(0, 0).fill_(NAN);
    EXPECT_FALSE(session.step().taken);
    session.buckets()[1].shard().select(0, 0).fill_(saved);
    EXPECT_TRUE(session.step().taken);
  });
  EXPECT_EQ(firsts, (std::vector<std::uint64_t>{0, 8}));
}

TEST(Session, InitialWeightsAndDataDoNotDependOnTheLayout) {
  const auto one = losses(small_run(1), 3), four = losses(small_run(4), 3);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(four[i] / one[i], 1.0, 1e-5);
}

TEST(Session, Bf16ComputeStaysCloseToFp32) {
  auto run = small_run(2);
  const auto exact = losses(run, 5);
  run.layout.precision = spec::Precision::bf16;
  const auto rounded = losses(run, 5);
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_NEAR(rounded[i] / exact[i], 1.0, 2e-2) << "step " << i;
  EXPECT_NE(rounded, exact);
}

TEST(Session, AFailingSourceEndsAllRanksWithItsError) {
  const auto run = small_run(3);
  const auto body = [&](const collective::Communicator& communicator) {
    int calls = 0;
    const Source source = [&, random = random_source(run.model)](auto samples, auto tokens, auto targets) {
      if (communicator.rank() == 1 && ++calls > 3) throw UserError("the disk is gone");
      random(samples, tokens, targets);
    };
    Session session(run, communicator, source);
    for (int step = 0; step < 5; ++step) session.step();
  };
  try {
    collective::run_ranks(3, body);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "the disk is gone");
  }
}

// The plan's description of a model can't drift from what the kernels do.
TEST(Session, KernelsDoTheProductsThatThePlanCounts) {
  auto tied = small_run(1), tied_gpt2 = small_gpt2_run(1), half = small_gpt2_run(1);
  tied.model.tied_embeddings = tied_gpt2.model.tied_embeddings = true;
  half.layout.precision = spec::Precision::fp16;
  for (const auto& run : {small_run(1), tied, small_gpt2_run(1), tied_gpt2, half}) {
    const auto tables = plan::describe(run);
    double planned = 0, attention = 0;
    for (const auto& unit : tables.units)
      for (const auto& piece : unit.pieces)
        (piece.name == "attention" ? attention : planned) +=
            tables.num_micro * (piece.flops + (piece.name == "attention" ? 0 : piece.backward_flops));
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      Session session(run, alone, random_source(run.model));
      const tensor::FlopCount count;
      session.step();
      EXPECT_EQ(static_cast<double>(count.products()), planned);
      // Forward: two products. Backward: five of the same size, since the kernel makes the scores once more.
      EXPECT_EQ(static_cast<double>(count.attention()), attention * 3.5);
    });
  }
}

TEST(Session, HalvesOfABackwardGiveTheBitsOfTheWhole) {
  for (const auto precision : {spec::Precision::fp32, spec::Precision::fp16}) {
    auto run = small_gpt2_run(1);
    run.model.dropout = 0.1;
    run.model.tied_embeddings = true;
    run.layout.precision = precision;
    const auto split = program::data_parallel(plan::describe(run), {.split_backward = true});
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      Session whole(run, alone, random_source(run.model)),
          halves(run, alone, random_source(run.model), {.program = &split});
      for (int i = 0; i < 2; ++i) EXPECT_EQ(whole.step().loss, halves.step().loss);
      for (std::size_t i = 0; i < whole.buckets().size(); ++i)
        EXPECT_TRUE(tensor::bit_equal(whole.buckets()[i].shard(), halves.buckets()[i].shard()));
    });
  }
}

TEST(Session, DropoutChangesWhatIsTrainedAndNotWhatIsGenerated) {
  for (auto run : {small_run(1), small_gpt2_run(1)}) {
    const auto plain = losses(run, 2);
    run.model.dropout = 0.3;
    const auto dropped = losses(run, 2);
    EXPECT_NE(plain.front(), dropped.front());
    EXPECT_NEAR(dropped.front() / plain.front(), 1.0, 0.1);
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      const model::Batch batch{.samples = 1, .tokens_T = tensor::zeros({12}, at::kLong)};
      Session with(run, alone, random_source(run.model));
      auto without_dropout = run;
      without_dropout.model.dropout = 0;
      Session without(without_dropout, alone, random_source(run.model));
      EXPECT_TRUE(tensor::bit_equal(with.logits(batch), without.logits(batch)));
    });
  }
}

class Generation : public testing::TestWithParam<std::tuple<spec::Family, spec::Precision>> {};

TEST_P(Generation, WithACacheGivesTheLogitsOfTheWholeText) {
  const auto [family, precision] = GetParam();
  auto run = family == spec::Family::llama ? small_run(1) : small_gpt2_run(1);
  run.layout.precision = precision;
  const double tolerance = precision == spec::Precision::bf16 ? 3e-2 : 1e-5;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(run, alone, random_source(run.model));
    const tensor::Tensor tokens = tensor::empty({2, 12}, at::kLong),
                         targets = tensor::empty({2, 12}, at::kLong);
    random_source(run.model)(std::vector<std::uint64_t>{4, 5}, {tokens.mutable_data_ptr<std::int64_t>(), 24},
                             {targets.mutable_data_ptr<std::int64_t>(), 24});
    const auto logits = [&](std::int64_t first, std::int64_t count, model::Cache* cache) {
      const model::Batch batch{
          .samples = 2, .tokens_T = tokens.narrow(1, first, count).flatten(), .cache = cache};
      return session.logits(batch).view({2, count, run.model.vocab});
    };
    const tensor::Tensor whole = logits(0, 12, nullptr);
    model::Cache cache;
    const auto error = [&](std::int64_t first, std::int64_t count) {
      return logits(first, count, &cache).sub(whole.narrow(1, first, count)).abs().max().item<double>();
    };
    EXPECT_GT(whole.abs().max().item<double>(), 0.01);
    EXPECT_LT(error(0, 7), tolerance) << "the prompt";
    for (std::int64_t position = 7; position < 12; ++position)
      EXPECT_LT(error(position, 1), tolerance) << position;
  });
}

INSTANTIATE_TEST_SUITE_P(FamiliesAndPrecisions, Generation,
                         testing::Combine(testing::Values(spec::Family::llama, spec::Family::gpt2),
                                          testing::Values(spec::Precision::fp32, spec::Precision::bf16)));

TEST(CorpusSource, RefusesAVocabularyTooSmallForBytes) {
  auto run = small_run(1);
  run.data.path = "corpus/kjv.txt";
  EXPECT_THROW(corpus_source(run), UserError);
}

// A file with all weights of the run's model, changed by `edit`, and what reading it says.
class Weights : public testing::Test {
 protected:
  using Tensors = std::map<std::string, checkpoint::TensorBytes>;
  static std::string told(const std::function<void(Tensors&)>& edit) {
    const std::string path =
        (std::filesystem::temp_directory_path() / cat("tessera-weights-", getpid())).string();
    auto run = small_run(1);
    std::vector<std::byte> zeros(1 << 16);
    Tensors tensors;
    for (const auto& bucket : plan::describe(run).buckets)
      for (const auto& p : bucket.parameters)
        tensors[p.name] = {"F32", p.shape,
                           std::span(zeros).first(static_cast<std::size_t>(p.elements()) * 4)};
    edit(tensors);
    checkpoint::write_safetensors(path, tensors);
    run.model.weights = path;
    std::string said;
    try {
      losses(run, 1);
    } catch (const UserError& error) {
      said = error.what();
    }
    std::filesystem::remove(path);
    return said;
  }
};

TEST_F(Weights, AreReadWhenTheFileFitsTheModel) {
  EXPECT_EQ(told([](Tensors&) {}), "");
}

TEST_F(Weights, ThatAreMissingSurplusOrOfAnotherShapeAreNamed) {
  EXPECT_NE(told([](Tensors& t) { t.erase("model.norm.weight"); }).find("model.norm.weight"),
            std::string::npos);
  EXPECT_NE(told([](Tensors& t) {
              t["model.layers.2.mlp.up_proj.weight"] = t["model.norm.weight"];
            }).find("model.layers.2.mlp.up_proj.weight"),
            std::string::npos);
  const auto shape = told([](Tensors& t) { t["lm_head.weight"] = t["model.norm.weight"]; });
  EXPECT_NE(shape.find("lm_head.weight"), std::string::npos) << shape;
  EXPECT_NE(shape.find("needs 61 x 32"), std::string::npos) << shape;
  auto run = small_run(1);
  run.model.weights = "/nonexistent/model.safetensors";
  EXPECT_THROW(losses(run, 1), UserError);
}

// As the published GPT-2 files are: no prefix, masks of an older version among the weights, more positions than are used.
TEST_F(Weights, OfPublishedGpt2FilesAreReadWithTheirMasksAndSurplusPositions) {
  auto run = small_gpt2_run(1);
  run.model.tied_embeddings = true;
  const std::int64_t hidden = run.model.hidden, ffn = run.model.ffn;
  std::vector<float> numbers(1 << 14);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  Tensors tensors;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t elements = 1;
    for (const auto size : shape) elements *= static_cast<std::size_t>(size);
    tensors[name] = {"F32", shape, std::as_bytes(std::span(numbers).first(elements))};
  };
  add("wte.weight", {run.model.vocab, hidden});
  add("wpe.weight", {run.model.sequence + 5, hidden});
  for (const std::string norm : {"h.0.ln_1", "h.0.ln_2", "h.1.ln_1", "h.1.ln_2", "ln_f"})
    add(norm + ".weight", {hidden}), add(norm + ".bias", {hidden});
  for (const std::string block : {"h.0.", "h.1."}) {
    const std::tuple<const char*, std::int64_t, std::int64_t> linears[] = {
        {"attn.c_attn", hidden, 3 * hidden},
        {"attn.c_proj", hidden, hidden},
        {"mlp.c_fc", hidden, ffn},
        {"mlp.c_proj", ffn, hidden}};
    for (const auto& [name, in, out] : linears)
      add(block + name + ".weight", {in, out}), add(block + name + ".bias", {out});
    add(block + "attn.bias", {1, 1, 12, 12});
  }
  const std::string path = (std::filesystem::temp_directory_path() / cat("tessera-gpt2-", getpid())).string();
  checkpoint::write_safetensors(path, tensors);
  run.model.weights = path;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(run, alone, random_source(run.model));
    const auto element = [&](const std::string& name, std::int64_t row, std::int64_t column) {
      for (auto& bucket : session.buckets())
        for (const auto& parameter : bucket.table().parameters)
          if (parameter.name == name) return bucket.value_of(parameter)[row][column].item<double>();
      throw Bug(name);
    };
    // Row r (an output) of v, column c (an input): in the file row c, column 2 hidden + r.
    EXPECT_EQ(element("transformer.h.1.attn.v_proj.weight", 3, 5), 5 * 3 * hidden + 2 * hidden + 3);
    EXPECT_EQ(element("transformer.h.1.attn.out_proj.weight", 3, 5), 5 * hidden + 3);
    EXPECT_EQ(element("transformer.h.0.mlp.down_proj.weight", 3, 5), 5 * hidden + 3);
    EXPECT_EQ(element("transformer.wpe.weight", 11, 5), 11 * hidden + 5);
  });
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::train
