// The other implementation of the format: what we write Hugging Face's Python package reads, and the reverse.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tessera/base/text.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::checkpoint {
namespace {

constexpr const char* kScript = R"(
import sys
import numpy
from safetensors.numpy import load_file, save_file
ours = load_file(sys.argv[1])
assert list(ours) and ours["ids"].dtype == numpy.int64 and ours["ids"].tolist() == [1, -2], ours
assert ours["w"].shape == (2, 2) and ours["w"].tolist() == [[1.5, 2], [3, -4]], ours
save_file({"half": numpy.array([[1, 2, 3]], dtype=numpy.float16), "w": ours["w"].T.copy()}, sys.argv[2],
    {"by": "python"})
)";

TEST(SafetensorsProcess, PythonReadsOurFilesAndWeReadPythons) {
  const std::string folder = cat(testing::TempDir(), "tessera_safetensors_", ::getpid(), "/");
  const std::string ours = folder + "ours", theirs = folder + "theirs", script = folder + "cross.py";
  std::filesystem::create_directories(folder);
  const std::vector<float> w = {1.5f, 2, 3, -4};
  const std::vector<std::int64_t> ids = {1, -2};
  write_safetensors(ours, {{"w", {"F32", {2, 2}, std::as_bytes(std::span(w))}},
                           {"ids", {"I64", {2}, std::as_bytes(std::span(ids))}}});
  std::ofstream(script) << kScript;
  const std::string command = ".venv/bin/python " + script + " " + ours + " " + theirs;
  ASSERT_EQ(std::system(command.c_str()), 0) << "run from the repository's folder: " << command;

  const Safetensors file(theirs);
  EXPECT_EQ(file.metadata().at("by"), "python");
  EXPECT_EQ(file.tensor("half").dtype, "F16");
  EXPECT_EQ(file.tensor("half").shape, (std::vector<std::int64_t>{1, 3}));
  std::vector<float> read(4);
  ASSERT_EQ(file.tensor("w").bytes.size(), 16u);
  std::memcpy(read.data(), file.tensor("w").bytes.data(), 16);
  EXPECT_EQ(read, (std::vector<float>{1.5f, 3, 2, -4}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::checkpoint
