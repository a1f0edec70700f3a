// Does Megatron-LM's own reader open the pairs that are written here, and is what its writer writes the same,
// byte for byte? Costs about 20 s, most of it to import that package twice.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/files/file_text.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/data/indexed/indexed_file.hpp"
#include "tessera/data/indexed/indexed_writer.hpp"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

void compare_with_megatron(std::int64_t vocabulary, const std::string& numpy_type) {
  const std::string folder = cat(testing::TempDir(), "tessera_megatron_", ::getpid(), "_", vocabulary);
  fs::create_directories(folder);
  const std::string ours = folder + "/ours", theirs = folder + "/theirs", expected = folder + "/expected";
  const TokenType type = type_for_vocabulary(vocabulary);
  std::vector<std::int64_t> all;
  {
    IndexedWriter writer(ours, type);
    std::ofstream lines(expected);
    for (std::uint64_t i = 0; i < 500; ++i) {
      std::vector<std::int32_t> tokens(random_bits(1, i, 0) % 300);
      for (std::size_t at = 0; at < tokens.size(); ++at)
        tokens[at] =
            static_cast<std::int32_t>(random_bits(2, i, at) % static_cast<std::uint64_t>(vocabulary));
      for (const std::int32_t token : tokens) lines << token << ' ';
      lines << '\n';
      writer.add(tokens);
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
    writer.finish();
  }
  const char* python = std::getenv("TESSERA_PYTHON");
  const std::string command =
      cat(python ? python : ".venv/bin/python", " -W ignore tests/data/indexed_pair.py ", ours, " ", expected,
          " ", theirs, " ", numpy_type);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  EXPECT_EQ(file_text(theirs + ".bin"), file_text(ours + ".bin"));
  EXPECT_EQ(file_text(theirs + ".idx"), file_text(ours + ".idx"));
  const IndexedFile read(theirs);
  read.check();
  std::vector<std::int64_t> tokens(read.num_tokens());
  read.read(0, tokens);
  EXPECT_EQ(tokens, all);
  fs::remove_all(folder);
}

TEST(Megatron, ReadsAndWritesTheSamePairOfSixteenBits) { compare_with_megatron(50000, "uint16"); }
TEST(Megatron, ReadsAndWritesTheSamePairOfThirtyTwoBits) { compare_with_megatron(128256, "int32"); }

}  // namespace
}  // namespace tessera::data
