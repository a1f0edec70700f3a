#include "tessera/spec/schema.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tessera/base/testing/golden.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/unknown_key.hpp"

namespace tessera::spec {
namespace {

struct Anything {
  template <typename T>
  operator T() const;
};

// How many fields an aggregate has: it takes that many initialisers and not one more.
template <typename T, typename... Fields>
constexpr std::size_t num_fields() {
  if constexpr (requires { T{Fields{}..., Anything{}}; }) {
    return num_fields<T, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}

std::size_t num_keys(const std::string& section) {
  std::size_t count = 0;
  for (const auto& key : schema()) count += key.section == section;
  return count;
}

TEST(Schema, EveryFieldOfTheStructsHasAKey) {
  EXPECT_EQ(num_keys("model"), num_fields<Model>());
  EXPECT_EQ(num_keys("data"), num_fields<Data>());
  EXPECT_EQ(num_keys("training"), num_fields<Training>());
  EXPECT_EQ(num_keys("layout"), num_fields<Layout>());
  EXPECT_EQ(num_keys("cluster"), num_fields<Cluster>());
  EXPECT_EQ(sections().size(), num_fields<spec::Run>());
}

TEST(Schema, KeysAreDistinctAndTheirDefaultsAreAllowed) {
  std::set<std::string> names;
  const spec::Run defaults;
  for (const auto& key : schema()) {
    EXPECT_TRUE(names.insert(key.full()).second) << key.full();
    EXPECT_EQ(find_key(key.full()), &key);
    EXPECT_FALSE(key.about.empty()) << key.full();
    EXPECT_EQ(fitted(key, key.get(defaults)), key.get(defaults)) << key.full();
  }
  EXPECT_EQ(find_key("model.hiden"), nullptr);
}

TEST(Schema, EveryKeySetsItsOwnFieldAndNoOther) {
  const spec::Run defaults;
  for (const auto& key : schema()) {
    spec::Run run;
    switch (key.kind) {
      case Kind::boolean:
        key.set(run, !std::get<bool>(key.get(defaults)));
        break;
      case Kind::integer:
        key.set(run, std::get<std::int64_t>(key.get(defaults)) + 1);
        break;
      case Kind::number:
        key.set(run, std::get<double>(key.get(defaults)) / 2 + 0.125);
        break;
      case Kind::text:
        key.set(run, std::string("elsewhere"));
        break;
      case Kind::word:
        key.set(run, key.words.back());
        break;
    }
    for (const auto& other : schema()) {
      const bool same = other.get(run) == other.get(defaults);
      EXPECT_EQ(same, other.full() != key.full()) << key.full() << " and " << other.full();
    }
  }
}

TEST(Schema, WordsStandInTheOrderOfTheirEnums) {
  EXPECT_EQ(word(Precision::fp16), "fp16");
  EXPECT_EQ(word(TensorKind::d25), "2.5d");
  EXPECT_EQ(word(Recompute::selective), "selective");
  EXPECT_EQ(word("gpipe"_schedule), "gpipe");
  EXPECT_EQ(word("1f1b"_schedule), "1f1b");
  EXPECT_EQ(word("zb-v"_schedule), "zb-v");
  EXPECT_EQ(word("auto"_schedule), "auto");
  EXPECT_EQ(word("pipedream-2bw"_schedule), "pipedream-2bw");
  EXPECT_EQ(word(Optimizer::sgd), "sgd");
  EXPECT_EQ(word(Decay::wsd), "wsd");
  EXPECT_EQ(word(Family::gpt2), "gpt2");
  EXPECT_EQ(word(Transport::threads), "threads");
}

TEST(Words, SayHowRanksShareTheWork) {
  EXPECT_EQ(shares_text({}), "dp 1");
  EXPECT_EQ(lossy_text({}), "");
  EXPECT_EQ(lossy_text({.compress_gradients = Compression::powersgd, .compress_weights = Compression::int8}),
            "gradients powersgd, weights int8");
  EXPECT_EQ(shares_text({.dp_replicate = 2, .dp_shard = 4, .cp = 2, .tp = 3, .zero = 1}),
            "dp 2 x 4, cp 2, tp 3, zero 1");
  EXPECT_EQ(shares_text({.dp_shard = 4, .zero = 3}), "dp 4, zero 3");
}

TEST(Schema, SaysInWordsWhatAKeyTakes) {
  EXPECT_EQ(allowed(*find_key("training.steps")), "an integer, at least 1");
  EXPECT_EQ(allowed(*find_key("layout.zero")), "an integer from 0 to 3");
  EXPECT_EQ(allowed(*find_key("training.beta1")), "a number, at least 0 and below 1");
  EXPECT_EQ(allowed(*find_key("training.epsilon")), "a number above 0");
  EXPECT_EQ(allowed(*find_key("model.tied_embeddings")), "true or false");
  EXPECT_EQ(allowed(*find_key("layout.tp_kind")), "one of 1d, 2d, 2.5d, 3d");
  EXPECT_NE(schema_text().find(
                "  training.steps = 100                    optimizer steps (an integer, at least 1)\n"),
            std::string::npos)
      << schema_text();
}

TEST(Schema, NamesOfOtherSystemsLeadToKeysThatExist) {
  std::set<std::string> known, others;
  for (const Key& key : schema()) known.insert(key.name);
  for (const OtherName& other : other_names()) {
    EXPECT_TRUE(other.ours.starts_with("--") || find_key(other.ours)) << other.ours;
    for (const std::string& name : other.names) {
      EXPECT_TRUE(others.insert(name).second) << name << " stands twice";
      EXPECT_FALSE(known.contains(name)) << name << " is a key of ours";
    }
  }
  const auto ours = [](const char* name) {
    const OtherName* found = found_elsewhere(name);
    return found ? found->ours : "";
  };
  EXPECT_EQ(ours("lr"), "training.learning_rate");
  EXPECT_EQ(ours("--tensor-model-parallel-size"), "layout.tp");
  EXPECT_EQ(ours("model.NUM_LAYERS"), "model.layers");
  EXPECT_EQ(ours("layers"), "");
  EXPECT_EQ(ours("--"), "");
}

TEST(Schema, TheConfigPageIsUpToDate) {
  EXPECT_EQ(schema_markdown(), golden("docs/config.md", schema_markdown())) << "UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace
}  // namespace tessera::spec
