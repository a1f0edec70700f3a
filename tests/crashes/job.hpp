// What the trials of checkpoints share: a small job of `tessera train` that saves after every step, and what
// lies in its folder afterwards.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::crashes {

namespace fs = std::filesystem;

inline constexpr int kRanks = 2;
inline constexpr double kPatienceSeconds = 60;

struct Job {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // besides what this process has
};

inline constexpr char kRunFile[] = "examples/tiny.toml";

// Two layers, 31k parameters and their moments.
inline std::vector<std::string> small_run(int steps) {
  return {cat("training.steps=", steps),
          "training.global_batch=4",
          "model.hidden=32",
          "model.heads=2",
          "model.kv_heads=1",
          "model.ffn=64",
          "model.sequence=16",
          "layout.micro_batch=2",
          "checkpoint.every=1",
          "cluster.peak_tflops=1"};  // not measured: it takes longer than the steps
}

// On two processes, which share the optimizer state.
inline Job training(const std::string& binary, const fs::path& out, int steps,
                    const std::vector<std::string>& more = {}) {
  Job job{{binary, "train", kRunFile}, {}};
  const auto add = [&](const std::vector<std::string>& words) {
    job.command.insert(job.command.end(), words.begin(), words.end());
  };
  add(small_run(steps));
  add({cat("layout.dp_shard=", kRanks), "layout.zero=2", "--procs", cat(kRanks), "--out", out.string()});
  add(more);
  return job;
}

inline std::string checkpoints_of(const fs::path& out) { return (out / "checkpoints").string(); }

// In a process group of its own. All that it says goes to `log`.
inline pid_t start(const Job& job, const fs::path& log) {
  std::vector<char*> argv;
  for (const auto& word : job.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  const int told = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  dup2(told, 1);
  dup2(told, 2);
  for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
  execv(argv[0], argv.data());
  _exit(127);
}

// The exit code, or 128 and the signal. A job that does not end is killed: 137.
inline int wait_for(pid_t job) {
  const double begun = now_seconds();
  int status = 0;
  while (waitpid(job, &status, WNOHANG) == 0) {
    if (now_seconds() - begun > kPatienceSeconds) kill(-job, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Ended {
  int code = 0;
  std::string text;
};

inline Ended run(const Job& job, const fs::path& log) {
  const int code = wait_for(start(job, log));
  return {code, file_text(log)};
}

// All that a checkpoint holds: its progress, and a hash of each tensor's bytes.
struct Content {
  checkpoint::Progress progress;
  std::map<std::string, std::uint64_t> tensors;
  bool operator==(const Content&) const = default;
};

// Reads every tensor, as one who goes on from it. Throws UserError when something is missing or damaged.
inline Content read_all(const std::string& folder) {
  checkpoint::Checkpoint from(folder);
  Content out{from.manifest().progress, {}};
  for (const auto& [name, tensor] : from.manifest().tensors) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(num_elements(tensor.shape)) *
                                 checkpoint::element_bytes(tensor.dtype).value());
    from.read(name, whole_box(tensor.shape), bytes);
    out.tensors[name] = checkpoint::hash_of(bytes);
  }
  return out;
}

// Checks every byte besides, as `tessera checkpoint verify` does.
inline Content content_of(const std::string& folder) {
  if (const auto problems = checkpoint::Checkpoint(folder).problems(); !problems.empty())
    throw UserError(problems.front());
  return read_all(folder);
}

using Contents = std::map<std::int64_t, Content>;  // by step

// Of every checkpoint of an undisturbed run.
inline Contents contents_of(const std::string& checkpoints) {
  Contents out;
  for (const auto& found : checkpoint::step_folders(checkpoints)) out[found.step] = content_of(found.path);
  return out;
}

// What a run that was struck left.
struct Left {
  std::int64_t newest = 0;       // step of the newest checkpoint; 0: none
  std::set<std::int64_t> steps;  // of all that are committed
  std::string torn;  // what is wrong; empty: all committed ones are bit for bit the undisturbed run's
};

// A folder of a step is committed, unless its manifest was removed to remove the rest. That of step `damaged`
// may be as it was before the run: unreadable.
inline Left left_in(const std::string& checkpoints, const Contents& undisturbed, std::int64_t damaged = 0) {
  Left out;
  for (const auto& found : checkpoint::step_folders(checkpoints)) {
    if (!fs::exists(found.path + "/" + checkpoint::kManifestName) && out.newest > found.step) continue;
    const std::string complaint = complaint_of([&] {
      if (content_of(found.path) != undisturbed.at(found.step))
        throw UserError(cat(found.path, " differs from the undisturbed run's"));
    });
    if (!complaint.empty() && found.step == damaged) continue;
    out.torn += complaint;
    out.steps.insert(found.step);
    out.newest = std::max(out.newest, found.step);
  }
  if (out.steps.empty()) out.torn += "no checkpoint at all";
  return out;
}

}  // namespace tessera::crashes
