// Which files are read as the weights of a run, and which are refused?
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

// A file with all weights of the run's model, changed by `edit`, and what reading it says.
class Weights : public testing::Test {
 protected:
  using Tensors = std::map<std::string, checkpoint::TensorBytes>;
  static std::string told(const std::function<void(Tensors&)>& edit, spec::Run run = small_run(1)) {
    const std::string path =
        (std::filesystem::temp_directory_path() / cat("tessera-weights-", getpid())).string();
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

TEST_F(Weights, OfATiedHeadMayLieInTheFileTwiceButNotDiffer) {
  const std::vector<float> ones(61 * 32, 1.0f);
  for (auto run : {small_run(1), small_gpt2_run(1)}) {
    run.model.tied_embeddings = true;
    const std::string table =
        run.model.family == spec::Family::llama ? "model.embed_tokens.weight" : "transformer.wte.weight";
    EXPECT_EQ(told([&](Tensors& t) { t["lm_head.weight"] = t[table]; }, run), "");
    const auto differs = told(
        [&](Tensors& t) {
          t["lm_head.weight"] = {"F32", {61, 32}, std::as_bytes(std::span(ones))};
        },
        run);
    EXPECT_NE(differs.find(cat(" differs from ", table)), std::string::npos) << differs;
    EXPECT_NE(differs.find("model.tied_embeddings = false"), std::string::npos) << differs;
  }
}

// As the published GPT-2 files are: no prefix, masks of an older version among the weights, more positions
// than are used.
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
    Session session(session_plan(run), alone, random_source(run.model));
    const auto element = [&](const std::string& name, std::int64_t row, std::int64_t column) {
      for (auto& bucket : session.buckets())
        for (const auto& parameter : bucket.table().parameters)
          if (parameter.name == name)
            return shard::parameter_in(bucket.shard(), parameter)[row][column].item<double>();
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

// Sizes come from the folder, each rank takes its slices out of the shards: the losses of one file on one
// rank.
TEST_F(Weights, OfAFolderWithShardsAreReadInEveryLayout) {
  const auto folder = std::filesystem::temp_directory_path() / cat("tessera-folder-", getpid());
  std::filesystem::create_directories(folder);
  auto run = small_run(1);
  run.model.qk_norm = true;
  run.model.head_dim = 12;
  std::vector<float> numbers(1 << 12);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(std::sin(0.1 * double(i)));
  std::map<std::string, Tensors> shards;
  std::string map;
  for (const auto& bucket : plan::describe(run).buckets)
    for (const auto& p : bucket.parameters) {
      const std::string shard = p.name.ends_with("_proj.weight") ? "b.safetensors" : "a.safetensors";
      shards[shard][p.name] = {
          "F32", p.shape,
          std::as_bytes(std::span(numbers).subspan(p.name.size(), static_cast<std::size_t>(p.elements())))};
      map += cat(map.empty() ? "" : ", ", '"', p.name, "\": \"", shard, '"');
    }
  Tensors all;
  for (const auto& [name, tensors] : shards) {
    all.insert(tensors.begin(), tensors.end());
    checkpoint::write_safetensors((folder / name).string(), tensors);
  }
  std::ofstream(folder / checkpoint::kIndexName) << "{\"weight_map\": {" << map << "}}";
  std::ofstream(folder / checkpoint::kConfigName) << checkpoint::hf_config(run.model, "F32");
  checkpoint::write_safetensors((folder / "all").string(), all);
  run.model.weights = (folder / "all").string();
  const auto expected = losses(run, 2);
  for (const auto& layout :
       {std::vector<std::string>{}, {"layout.pp=2"}, {"layout.dp_shard=3", "layout.zero=3"}}) {
    auto overrides = layout;
    overrides.push_back(cat("model.weights=", folder.string()));
    for (const char* key : {"training.global_batch=8", "training.warmup_steps=2", "layout.micro_batch=2"})
      overrides.push_back(key);
    const auto read = spec::parse("", "run.toml", overrides, checkpoint::described);
    const auto found = losses(read, 2);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i] / expected[i], 1, 1e-5) << join(layout, " ");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::train
