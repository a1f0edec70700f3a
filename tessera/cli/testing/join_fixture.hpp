// Jobs whose ranks others have started, compared with the same job of our own launcher.
#pragma once

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {

class Join : public Binary {
 protected:
  std::string train(const std::string& out, const std::string& arguments = "") const {
    return cat(binary(), " train ", folder_ / "run.toml", " --out ", folder_ / out, " ", arguments);
  }

  // As they are written, so that equal means equal to the last bit.
  std::vector<std::string> losses(const std::string& out) const {
    std::ifstream file(folder_ / out / "metrics.jsonl");
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) {
      const auto begin = line.find("\"loss\": ");
      found.push_back(line.substr(begin, line.find(',', begin) - begin));
    }
    return found;
  }

  void expect_as_our_own(const std::string& command) {
    const auto ours = shell(train("ours", "--procs 2"));
    ASSERT_EQ(ours.code, 0) << ours.out;
    const auto joined = shell(command);
    ASSERT_EQ(joined.code, 0) << joined.out;
    EXPECT_EQ(losses("joined"), losses("ours")) << joined.out;
    EXPECT_EQ(losses("joined").size(), 6u);
  }
};

inline const std::string kTorchrun = ".venv/bin/torchrun --standalone --no-python --nproc-per-node 2 ";
inline const std::string kMpirun = "mpirun --allow-run-as-root --oversubscribe -n 2 ";

}  // namespace tessera::cli
