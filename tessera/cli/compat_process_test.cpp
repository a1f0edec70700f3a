// Run files and checkpoints of every format that was ever on main (tests/compat/README.md). Three seconds.
#include <gmock/gmock.h>

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Compatible : public Binary {
 protected:
  // A copy of a state, which may be written to.
  std::string state(const std::string& name) const {
    fs::copy("tests/compat/states/" + name, folder_ / "out", fs::copy_options::recursive);
    return path("out");
  }
  // The model of the states.
  std::string same_run(const std::string& more) const {
    return cat("train ", path("run.toml"), " --out ", path("out"),
               " model.layers=1 model.hidden=8 model.heads=2 model.kv_heads=2 model.ffn=16 model.sequence=16 "
               "model.tied_embeddings=true training.global_batch=4 layout.micro_batch=1 ",
               more);
  }
};

TEST_F(Compatible, RunFilesOpenOrSayWhatToWriteNow) {
  std::size_t count = 0;
  for (const auto& file : fs::directory_iterator("tests/compat/runs")) {
    std::string expected;
    std::ifstream text(file.path());
    std::getline(text, expected);
    const Outcome found = tessera(cat("plan memory ", file.path().string()));
    const std::string refused = "# refused: ";
    if (expected.starts_with(refused)) {
      EXPECT_EQ(found.code, 2) << file.path();
      EXPECT_THAT(found.out, HasSubstr(expected.substr(refused.size()))) << file.path();
    } else {
      EXPECT_EQ(expected, "# opens") << file.path();
      EXPECT_EQ(found.code, 0) << file.path() << ": " << found.out;
    }
    ++count;
  }
  EXPECT_EQ(count, 5u);
}

TEST_F(Compatible, RunsContinueFromStatesOfEarlierVersions) {
  for (const char* name : {"first", "renamed-keys"}) {
    const std::string folder = state(name);
    EXPECT_EQ(tessera("checkpoint verify " + folder).code, 0) << name;
    EXPECT_EQ(tessera(cat("generate ", folder, " \"In the\" --tokens 4")).code, 0) << name;
    const Outcome resumed = tessera(same_run("training.steps=3 layout.dp_shard=2 layout.zero=1"));
    EXPECT_EQ(resumed.code, 0) << resumed.out;
    EXPECT_THAT(resumed.out, HasSubstr("step 3/3")) << name;
    EXPECT_THAT(resumed.out, Not(HasSubstr("step 2/3"))) << name;
    fs::remove_all(folder);
  }
}

TEST_F(Compatible, AStateWithItsTokenizerNeedsNothingElse) {
  const std::string folder = state("tokenizer");
  EXPECT_EQ(tessera("checkpoint verify " + folder).code, 0);
  const Outcome text = tessera(cat("generate ", folder, " \"In the\" --tokens 4"));
  EXPECT_EQ(text.code, 0) << text.out;
}

}  // namespace
}  // namespace tessera::cli
