// Does a folder of Hugging Face come back from a checkpoint, and is a checkpoint what that folder said?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"
#include "tessera/checkpoint/huggingface/hf_export.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t kHidden = 6, kFfn = 10, kVocab = 7, kPositions = 5;

// One block of a GPT-2 as the published files have it: no prefix, a mask, the tied head twice.
class RoundTrip : public testing::Test {
 protected:
  RoundTrip() : root_(cat(testing::TempDir(), "tessera_round_trip_", ::getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "hf");
    fs::create_directories(root_ / "hf/original");
    for (std::size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<float>(i) / 8;
    model_ = {
        .family = spec::Family::gpt2, .layers = 1, .hidden = kHidden, .heads = 2, .kv_heads = 2, .ffn = kFfn};
    model_.vocab = kVocab;
    model_.sequence = kPositions;
    model_.tied_embeddings = true;
    std::ofstream(root_ / "hf/config.json") << hf_config(model_, "F32") << "   ";
    std::ofstream(root_ / "hf/tokenizer.json") << "{}";
    std::ofstream(root_ / "hf/empty.txt");
    add("wte.weight", {kVocab, kHidden});
    add("lm_head.weight", {kVocab, kHidden});
    add("wpe.weight", {kPositions, kHidden});
    for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) linear(norm, {kHidden}, kHidden);
    linear("h.0.attn.c_attn", {kHidden, 3 * kHidden}, 3 * kHidden);
    linear("h.0.attn.c_proj", {kHidden, kHidden}, kHidden);
    linear("h.0.mlp.c_fc", {kHidden, kFfn}, kFfn);
    linear("h.0.mlp.c_proj", {kFfn, kHidden}, kHidden);
    add("h.0.attn.bias", {1, 1, kPositions, kPositions});
  }
  ~RoundTrip() override { fs::remove_all(root_); }

  void add(const std::string& name, const Shape& shape) {
    // The head's table is that of the tokens.
    const std::size_t first = name == "lm_head.weight" || name == "wte.weight" ? 0 : name.size();
    tensors_[name] = {
        "F32", shape,
        std::as_bytes(std::span(numbers_).subspan(first, static_cast<std::size_t>(num_elements(shape))))};
  }
  void linear(const std::string& name, const Shape& weight, std::int64_t bias) {
    add(name + ".weight", weight);
    add(name + ".bias", {bias});
  }
  // The parameters of the model by our names.
  static std::vector<Wanted> wanted() {
    std::vector<Wanted> out = {{"transformer.wte.weight", {kVocab, kHidden}},
                               {"transformer.wpe.weight", {kPositions, kHidden}}};
    const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
      out.push_back(
          {cat("transformer.", name, ".weight"), columns == 0 ? Shape{rows} : Shape{rows, columns}});
      out.push_back({cat("transformer.", name, ".bias"), {rows}});
    };
    for (const char* name : {"q", "k", "v", "out"}) add(cat("h.0.attn.", name, "_proj"), kHidden, kHidden);
    add("h.0.mlp.up_proj", kFfn, kHidden);
    add("h.0.mlp.down_proj", kHidden, kFfn);
    for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) add(norm, kHidden, 0);
    return out;
  }
  void save_whole() const { write_safetensors(path("hf/model.safetensors"), tensors_, {{"format", "pt"}}); }
  // The matrices apart from the rest, with odd spaces in the index.
  void save_shards() const {
    std::map<std::string, TensorBytes> shards[2];
    std::string map;
    for (const auto& [name, tensor] : tensors_) {
      const int shard = tensor.shape.size() == 2 ? 1 : 0;
      shards[shard][name] = tensor;
      map += cat(map.empty() ? "" : " ,", '"', name, "\": \"part-", shard, ".safetensors\"");
    }
    for (const int i : {0, 1}) write_safetensors(path(cat("hf/part-", i, ".safetensors")), shards[i]);
    std::ofstream(path(cat("hf/", kIndexName))) << "{\"weight_map\":{" << map << "}}";
  }
  ImportSummary import() const {
    return import_folder(path("hf"), path("checkpoint"), wanted(), "test", nullptr);
  }
  ExportSummary exported(const std::string& to, const ExportOptions& options = {}) const {
    Checkpoint from(path("checkpoint"));
    std::uint64_t last = 0, whole = 0;
    const auto out = export_folder(from, path(to), options, [&](std::uint64_t done, std::uint64_t all) {
      last = done;
      whole = all;
    });
    EXPECT_EQ(last, whole) << "progress ends at the end";
    EXPECT_GT(whole, 0u);
    return out;
  }
  void expect_equal_files(const std::string& to) const {
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(root_ / "hf")) {
      if (entry.is_directory()) continue;
      EXPECT_EQ(file_text(entry.path()), file_text(root_ / to / entry.path().filename())) << entry.path();
      ++files;
    }
    EXPECT_EQ(files, static_cast<std::size_t>(std::distance(fs::directory_iterator(root_ / to), {})));
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  fs::path root_;
  spec::Model model_;
  std::vector<float> numbers_ = std::vector<float>(400);
  std::map<std::string, TensorBytes> tensors_;
};

TEST_F(RoundTrip, GivesBackEveryFileByteByByte) {
  save_whole();
  const auto summary = import();
  EXPECT_EQ(summary.num_tensors, wanted().size());
  EXPECT_EQ(summary.num_files, 3u);
  EXPECT_THAT(summary.left_out, testing::ElementsAre("original"));
  EXPECT_EQ(exported("out").dtype, "");
  expect_equal_files("out");
}

TEST_F(RoundTrip, GivesBackShardsAndTheirIndex) {
  save_shards();
  import();
  exported("out");
  expect_equal_files("out");
}

TEST_F(RoundTrip, ImportsUnfusedAndAsOutByIn) {
  save_whole();
  import();
  Checkpoint from(path("checkpoint"));
  EXPECT_EQ(from.manifest().tensors.size(), wanted().size());
  EXPECT_THAT(from.problems(), testing::IsEmpty());
  float found = 0;
  // Output 2 of v, input 4: there row 4, column 2 hidden + 2.
  from.read("transformer.h.0.attn.v_proj.weight", {{2, 4}, {1, 1}},
            std::as_writable_bytes(std::span(&found, 1)));
  EXPECT_EQ(found, numbers_[std::strlen("h.0.attn.c_attn.weight") + 4 * 3 * kHidden + 2 * kHidden + 2]);
  from.read("transformer.h.0.attn.k_proj.bias", {{3}, {1}}, std::as_writable_bytes(std::span(&found, 1)));
  EXPECT_EQ(found, numbers_[std::strlen("h.0.attn.c_attn.bias") + kHidden + 3]);
}

TEST_F(RoundTrip, InAnotherDtypeOrInShardsTheTensorsAreTheSame) {
  save_whole();
  import();
  const auto summary = exported("half", {.dtype = "F16", .most_shard_bytes = 300});
  EXPECT_EQ(summary.dtype, "F16");
  EXPECT_GT(summary.num_shards, 2u);
  const TensorFiles files(path("half"));
  EXPECT_EQ(files.files().size(), summary.num_shards);
  EXPECT_FALSE(files.tensors().contains("transformer.h.0.attn.bias")) << "what is derived is not written";
  EXPECT_FALSE(files.tensors().contains("lm_head.weight"));
  const auto& fused = files.tensor("transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(fused.dtype, "F16");
  EXPECT_EQ(fused.shape, (Shape{kHidden, 3 * kHidden}));
  EXPECT_THAT(file_text(root_ / "half/config.json"), HasSubstr("float16"));
  EXPECT_EQ(file_text(root_ / "half/tokenizer.json"), "{}");
  // Eighths are exact in 16 bits, so that the way back is the identity.
  import_folder(path("half"), path("again"), wanted(), "test", nullptr);
  Checkpoint again(path("again")), before(path("checkpoint"));
  export_folder(again, path("wide"), {.dtype = "F32"}, nullptr);
  const TensorFiles wide(path("wide"));
  for (const auto& [name, tensor] : wide.tensors()) {
    const auto& expected = tensors_.at(without_prefix(name));
    EXPECT_TRUE(tensor.shape == expected.shape && std::ranges::equal(tensor.bytes, expected.bytes)) << name;
  }
}

TEST_F(RoundTrip, OfATrainedCheckpointTakesTheConfigOfTheModelOrThatOfAnotherFolder) {
  save_whole();
  import();
  Checkpoint imported(path("checkpoint"));
  Manifest manifest = imported.manifest();
  spec::Run run;
  run.model = model_;
  manifest.config = spec::to_text(run);
  std::erase_if(manifest.files, [](const File& file) { return file.name.starts_with(kAttachedPrefix); });
  std::ofstream(path(cat("checkpoint/", kManifestName))) << to_text(manifest);
  const auto alone = exported("alone");
  EXPECT_EQ(alone.dtype, "F32");
  EXPECT_EQ(alone.num_files, 1u);
  EXPECT_EQ(file_text(root_ / "alone/config.json"), hf_config(model_, "F32"));
  const auto like = exported("like", {.dtype = "BF16", .like = path("hf")});
  EXPECT_EQ(like.num_files, 3u) << "config, tokenizer and an empty one";
  EXPECT_EQ(hf_model(file_text(root_ / "like/config.json"), "").dtype, "BF16");
  auto other = model_;
  other.ffn += 2;
  std::ofstream(root_ / "hf/config.json") << hf_config(other, "F32");
  EXPECT_THAT(complaint_of([&] { exported("wrong", {.like = path("hf")}); }),
              HasSubstr("describes another model"));
  EXPECT_FALSE(fs::exists(root_ / "wrong"));
}

// A stranger's folder: its tokenizer is a link to a file of the user's.
TEST_F(RoundTrip, OpensNothingOutsideOfTheFolderUnlessLinksAreFollowed) {
  save_whole();
  std::ofstream(root_ / "secret") << "of the user";
  fs::create_symlink(root_ / "secret", root_ / "hf/merges.txt");
  EXPECT_THAT(complaint_of([&] { import(); }), HasSubstr("hf/merges.txt' is a link to"));
  EXPECT_FALSE(fs::exists(root_ / "checkpoint"));
  import_folder(path("hf"), path("checkpoint"), wanted(), "test", nullptr, Links::followed);
  EXPECT_EQ(file_text(root_ / "checkpoint/huggingface/merges.txt"), "of the user");

  EXPECT_THAT(complaint_of([&] { exported("like", {.dtype = "F32", .like = path("hf")}); }),
              HasSubstr("hf/merges.txt' is a link to"));
  exported("like", {.dtype = "F32", .like = path("hf"), .links = Links::followed});
  EXPECT_EQ(file_text(root_ / "like/merges.txt"), "of the user");

  for (const char* name : {"model.safetensors", "config.json"}) {
    fs::remove(root_ / "hf/merges.txt");
    fs::rename(root_ / "hf" / name, root_ / name);
    fs::create_symlink(root_ / name, root_ / "hf" / name);
    const std::string expected = cat("hf/", name, "' is a link to");
    EXPECT_THAT(complaint_of([&] {
                  described_folder(path("hf"));
                  const TensorFiles files(path("hf"));
                }),
                HasSubstr(expected));
    const TensorFiles files(path("hf"), Links::followed);
    EXPECT_EQ(files.tensors().size(), tensors_.size());
  }
}

TEST_F(RoundTrip, AttachedFilesOfACheckpointThatAreLinksAreNotCopied) {
  save_whole();
  import();
  const auto attached = root_ / "checkpoint/huggingface/tokenizer.json";
  std::ofstream(root_ / "secret") << "{}";  // the bytes and so the hash that the manifest names
  fs::remove(attached);
  fs::create_symlink(root_ / "secret", attached);
  EXPECT_THAT(complaint_of([&] { exported("out"); }), HasSubstr("huggingface/tokenizer.json' is a link to"));
  EXPECT_FALSE(fs::exists(root_ / "out"));
  Checkpoint from(path("checkpoint"), Links::followed);
  export_folder(from, path("out"), {}, nullptr);
  expect_equal_files("out");
}

TEST_F(RoundTrip, NeverWritesOverWhatIsThereAndLeavesNothingHalfDone) {
  save_whole();
  fs::create_directories(root_ / "checkpoint");
  EXPECT_THAT(complaint_of([&] { import(); }), HasSubstr("' exists; name a folder that does not"));
  fs::remove_all(root_ / "checkpoint");
  tensors_.erase("ln_f.bias");
  save_whole();
  EXPECT_THAT(complaint_of([&] { import(); }), HasSubstr("ln_f.bias"));
  EXPECT_FALSE(fs::exists(root_ / "checkpoint"));
  EXPECT_FALSE(fs::exists(root_ / "checkpoint.writing"));
}

}  // namespace
}  // namespace tessera::checkpoint
