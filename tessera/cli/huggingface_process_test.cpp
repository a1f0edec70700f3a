// Do weights go from `transformers` into a checkpoint and back, and is what was trained here the same model
// there? Every family, as one file and in shards, with models made and opened by that package on the spot.
#include <algorithm>
#include <filesystem>

#include "tessera/base/files/file_text.hpp"
#include "tessera/base/testing/one_in.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"
#include "tessera/checkpoint/huggingface/hf_export.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/train/saved.hpp"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using tensor::Tensor;

const std::vector<std::string> kFamilies = {"llama2",  "llama3",    "qwen2",       "qwen3", "mistral",
                                            "mixtral", "qwen3_moe", "deepseek_v3", "olmo2", "gpt2"};

class HuggingFace : public Binary {
 protected:
  void run(const std::string& arguments) {
    const Outcome outcome = tessera(arguments);
    ASSERT_EQ(outcome.code, 0) << arguments << "\n" << outcome.out;
  }
  Outcome python(const std::string& what, const std::vector<std::string>& families) const {
    return shell(cat(".venv/bin/python tests/huggingface/models.py ", what, " ", folder_.string(), " ",
                     join(families, " ")));
  }
  std::string at(const std::string& family, const std::string& name) const {
    return (folder_ / family / name).string();
  }

  void expect_equal_folders(const std::string& a, const std::string& b) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(a)) names.push_back(entry.path().filename().string());
    EXPECT_EQ(std::ssize(names), std::distance(fs::directory_iterator(b), {}));
    for (const auto& name : names)
      EXPECT_EQ(file_text(fs::path(a) / name), file_text(fs::path(b) / name)) << a << "/" << name;
  }

  // Of what the checkpoint holds, on one device, for the tokens of the family.
  static Tensor logits(checkpoint::Checkpoint& from, const checkpoint::Safetensors& reference) {
    spec::Run run = spec::parse_unchecked(from.manifest().config, "checkpoint");
    run.layout = {};
    run.model.weights = "";
    Tensor out;
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      train::Session session(train::session_plan(run), alone, train::random_source(run.model));
      train::restore(session, from);
      const auto& tokens = reference.tensor("tokens");
      const Tensor ids =
          tensor::view_of(const_cast<std::byte*>(tokens.bytes.data()), tokens.shape, at::kLong);
      const model::Batch batch{
          .samples = tokens.shape[0], .tokens_T = ids.flatten(), .targets_T = ids.flatten()};
      out = session.logits(batch).contiguous();
    });
    return out;
  }

  // A few steps on two ranks, sharded or in a pipeline, and what they lead to in both systems.
  void train_and_export(const std::string& family, const std::string& layout) {
    const std::string out = at(family, "run");
    run(cat("train ", path("run.toml"), " --procs 2 --out ", out, " ", layout,
            " data.bytes_as_tokens=true model.weights=", at(family, "sharded"),
            " model.sequence=24 training.steps=3 training.warmup_steps=0 training.learning_rate=0.01"
            " checkpoint.every=3"));
    const std::string saved = out + "/checkpoints/step-00000003";
    run(cat("checkpoint export ", saved, " ", at(family, "alone.exported")));
    EXPECT_FALSE(fs::exists(at(family, "alone.exported/tokenizer.model")))
        << "nothing but the checkpoint is opened";
    run(cat("checkpoint export ", saved, " ", at(family, "trained.exported"), " --dtype fp32 --like ",
            at(family, "sharded")));
    EXPECT_TRUE(fs::exists(at(family, "trained.exported/tokenizer.model")));
    checkpoint::Checkpoint from(saved);
    checkpoint::export_folder(from, at(family, "anew.exported"), {.most_shard_bytes = 100'000}, nullptr);
    const checkpoint::Safetensors reference(at(family, "logits.safetensors"));
    const Tensor ours = logits(from, reference);
    const checkpoint::TensorBytes found{
        "F32",
        {2, 24, 256},
        {static_cast<const std::byte*>(ours.const_data_ptr()), static_cast<std::size_t>(ours.nbytes())}};
    checkpoint::write_safetensors(at(family, "ours.safetensors"), {{"trained", found}, {"anew", found}});
  }
};

TEST_F(HuggingFace, EveryFamilyGoesInAndOutAndBackTrained) {
  std::ofstream(folder_ / "run.toml") << "[data]\npath = \"corpus/kjv.txt\"\n[training]\nglobal_batch = 8\n"
                                         "[layout]\nmicro_batch = 2\n";
  std::vector<std::string> families;
  OneIn sampled(3);
  std::ranges::copy_if(kFamilies, std::back_inserter(families), [&](const auto&) { return sampled(); });
  const Outcome made = python("make", families);
  ASSERT_EQ(made.code, 0) << made.out;
  for (std::size_t i = 0; i < families.size(); ++i) {
    const std::string& family = families[i];
    for (const std::string kind : {"whole", "sharded"}) {
      run(cat("checkpoint import ", at(family, kind), " ", at(family, kind + ".checkpoint")));
      run(cat("checkpoint export ", at(family, kind + ".checkpoint"), " ", at(family, kind + ".exported")));
      expect_equal_folders(at(family, kind), at(family, kind + ".exported"));
    }
    const bool has_experts = family == "mixtral" || family == "qwen3_moe" || family == "deepseek_v3";
    train_and_export(family, has_experts  ? "layout.dp_shard=2 layout.ep=2 layout.zero=1"
                             : i % 2 == 0 ? "layout.dp_shard=2 layout.zero=3"
                                          : "layout.pp=2");
  }
  const Outcome checked = python("check", families);
  EXPECT_EQ(checked.code, 0) << checked.out;
  const auto at = checked.out.rfind("worst relative error");
  std::printf("%s", at == std::string::npos ? "" : checked.out.substr(at).c_str());
}

// The weights are never opened: what the tokens mean is asked before.
TEST_F(HuggingFace, AFolderOrAnImportWithATokenizerIsNotTrainedOnBytesUnlessToldTo) {
  const spec::Model model{.layers = 1, .hidden = 32, .heads = 2, .kv_heads = 2, .ffn = 48, .vocab = 512};
  fs::create_directories(folder_ / "hf");
  std::ofstream(folder_ / "hf/config.json") << checkpoint::hf_config(model, "F32");
  std::ofstream(folder_ / "hf/tokenizer.json") << "{}";
  std::ofstream(folder_ / "bytes.toml") << "[data]\npath = \"corpus/kjv.txt\"\n[model]\nsequence = 32\n";
  const std::string train =
      cat("train ", path("bytes.toml"), " --out ", path("out"), " model.weights=", path("hf"));
  const Outcome refused = tessera(train);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.out.find(cat("model.weights = ", path("hf"), " has a tokenizer (tokenizer.json)")),
            std::string::npos)
      << refused.out;
  const Outcome told = tessera(train + " data.bytes_as_tokens=true");
  EXPECT_NE(told.out.find("has neither model.safetensors nor"), std::string::npos) << told.out;
}

TEST_F(HuggingFace, ARunFileThatContradictsTheFolderIsRefused) {
  const spec::Model model{.layers = 1, .hidden = 32, .heads = 2, .kv_heads = 2, .ffn = 48, .vocab = 256};
  fs::create_directories(folder_ / "hf");
  std::ofstream(folder_ / "hf/config.json") << checkpoint::hf_config(model, "F32");
  const Outcome outcome = tessera(cat("train ", path("run.toml"), " --dry-run model.weights=", path("hf")));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.out.find("model.hidden = 64 contradicts"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("which says 32"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace tessera::cli
