// A fixture for tests that use the binary as a user would: they start it, and read what it prints and writes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/text.hpp"

namespace tessera::cli {

struct Outcome {
  int code = 0;
  std::string out;  // standard output and error, as they came
};

inline std::string binary() {
  const char* binary = std::getenv("TESSERA_BINARY");
  return binary ? binary : "build/release/tessera";
}

inline Outcome shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(cat("( ", command, " ) 2>&1").c_str(), "r");
  char buffer[4096];
  while (const auto n = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.out.append(buffer, n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// How often the part stands in the text.
inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The number after "name": in a flat JSON text.
inline double field(const std::string& json, const std::string& name) {
  const auto at = json.find(cat("\"", name, "\": "));
  EXPECT_NE(at, std::string::npos) << name << " is missing in " << json;
  return at == std::string::npos ? 0 : std::atof(json.c_str() + at + name.size() + 4);
}

// A folder of its own with a run file that trains in a second. It saves nothing, so that the next run of a
// folder begins anew.
class Binary : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / cat("tessera-cli-", getpid());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "run.toml") << R"(
[model]
layers = 2
hidden = 64
heads = 4
kv_heads = 2
ffn = 96
vocab = 256
sequence = 32
[data]
path = "corpus/kjv.txt"
[training]
steps = 6
global_batch = 8
[checkpoint]
every_minutes = 0
[layout]
micro_batch = 2
)";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }

  Outcome tessera(const std::string& arguments) const { return shell(cat(binary(), " ", arguments)); }

  std::vector<double> losses() const {
    std::ifstream file(path("out/metrics.jsonl"));
    std::vector<double> out;
    for (std::string line; std::getline(file, line);) out.push_back(field(line, "loss"));
    return out;
  }

  std::filesystem::path folder_;
};

}  // namespace tessera::cli
