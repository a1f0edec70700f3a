// Checks what a failed save leaves behind. Real jobs of `tessera train` on two processes, whose disk fails or
// which are killed
//   - at every call that changes a file during one save, on each rank (tests/faults/preload.cpp), for three
//     kinds of save: written while the steps run, written while they wait, and replacing a damaged one of the
//     same step; and
//   - at random instants: a random rank, or all processes of the job.
// Afterwards every committed checkpoint must equal the undisturbed run's bit for bit, a killed job must
// resume to the same end, and a disk that fails must not end the training.
//   crashes BINARY LIBRARY [states] [kills] [seed]      from the root of the tree; states 0: all of them
// Exits with 1 when a checkpoint is torn, or a training ended.
#include <cstdio>
#include <sstream>

#include "tessera/base/random.hpp"
#include "tests/crashes/job.hpp"

namespace {

using namespace tessera;
using namespace tessera::crashes;

constexpr int kSteps = 4, kStruck = 3;  // faults strike in the save of this step
constexpr int kManySteps = 60;          // of the jobs that are killed at random
constexpr std::string_view kStruckName = "step-00000003", kNextName = "step-00000004";
constexpr char kSavingName[] = "step-00000003.saving-";
constexpr const char* kFaults[] = {"enospc", "eio", "short", "full", "kill-before", "kill-after"};

struct Trial {
  std::string binary, library;
  fs::path folder;
  Contents undisturbed;  // of the run with faults
  Contents many;         // of the run that is killed at random
  std::uint64_t seed = 1;
};

// How the save that is struck comes about.
struct Kind {
  const char* name;
  std::vector<std::string> options;
  bool replaces = false;
};
const Kind kKinds[] = {{"beside the steps", {}},
                       {"while steps wait", {"checkpoint.background=false"}},
                       {"in the place of a damaged one", {}, true}};

struct State {
  const Kind* kind = nullptr;
  int rank = 0;
  long call = 0;
  std::string what;  // "write", "rename", ...
  std::string path;
};

struct Tally {
  int states = 0, old = 0, fresh = 0, torn = 0, warned = 0, ended = 0, lost = 0;
  double seconds = 0;
};

// Empty, or with the checkpoints of a run that was undisturbed so far, the newest of them damaged.
void prepare(const Trial& trial, const Kind& kind, const fs::path& out) {
  fs::remove_all(out);
  if (!kind.replaces) return;
  fs::create_directories(checkpoints_of(out));
  for (int step = 1; step <= kStruck; ++step) {
    const fs::path from = checkpoint::step_folder(checkpoints_of(trial.folder / "undisturbed"), step).path;
    fs::copy(from, fs::path(checkpoints_of(out)) / from.filename(), fs::copy_options::recursive);
  }
  const fs::path damaged = checkpoint::step_folder(checkpoints_of(out), kStruck).path;
  fs::resize_file(damaged / "rank-00001.safetensors", 100);
}

Job struck(const Trial& trial, const Kind& kind, const fs::path& out,
           const std::map<std::string, std::string>& fault) {
  Job job = training(trial.binary, out, kSteps, kind.options);
  job.environment = fault;
  job.environment["LD_PRELOAD"] = trial.library;
  job.environment["TESSERA_FAULT_FOLDER"] = checkpoints_of(out);
  job.environment["TESSERA_FAULT_FROM"] = kSavingName;
  return job;
}

// The calls of that save: from the first on its folder to the last before the next one's.
std::vector<State> calls_of(const std::string& report, const Kind& kind) {
  std::vector<State> out;
  std::set<int> over;
  std::istringstream lines(report);
  for (State state{.kind = &kind};
       lines >> state.rank >> state.call >> state.what && std::getline(lines, state.path);) {
    if (state.path.find(kNextName) != std::string::npos) over.insert(state.rank);
    if (!over.contains(state.rank)) out.push_back(state);
  }
  return out;
}

// The rules by which a save outlives a loss of power, seen in its calls: what is written is synced, then the
// folder, then comes the rename, then the parent is synced; only then something is removed.
std::string order_problem(const std::vector<State>& calls) {
  std::map<std::string, long> dirty;
  bool renamed = false, synced = false;
  for (const State& state : calls) {
    const bool inside = state.path.find(kStruckName) != std::string::npos;
    const bool names = state.what == "open" || state.what == "unlink";
    if (inside && names) dirty[state.path.substr(0, state.path.rfind('/'))] = state.call;
    if (inside && (state.what == "write" || state.what == "open")) dirty[state.path] = state.call;
    if (state.what == "fsync" || state.what == "unlink") dirty.erase(state.path);
    if (state.what == "rename" && !renamed) {  // later ones take away what is removed
      if (!dirty.empty()) return cat(dirty.begin()->first, " is not synced before the rename");
      renamed = true;
    }
    if (renamed && state.what == "fsync" && !inside) synced = true;
    if (!inside && (state.what == "unlink" || state.what == "rmdir") && !synced)
      return cat(state.path, " is removed before the new one is on the disk");
  }
  return synced ? "" : "the rename is never synced";
}

bool is_kill(const std::string& fault) { return fault.starts_with("kill"); }

// The run goes on from what is left and must end as the undisturbed one did.
std::string resume_problem(const Job& job, const fs::path& out, const Contents& undisturbed,
                           const fs::path& log) {
  const Ended ended = run(job, log);
  if (ended.code != 0) return cat("resuming ended with ", ended.code, ": ", ended.text);
  const auto last = *undisturbed.rbegin();
  std::string problem = complaint_of([&] {
    if (content_of(checkpoint::step_folder(checkpoints_of(out), last.first).path) != last.second)
      throw UserError("the resumed run ended elsewhere");
  });
  return problem;
}

void strike(const Trial& trial, const State& state, const std::string& fault, Tally& tally) {
  const fs::path out = trial.folder / "out", log = trial.folder / "log";
  prepare(trial, *state.kind, out);
  const Ended ended = run(struck(trial, *state.kind, out,
                                 {{"TESSERA_FAULT_WHERE", cat("TESSERA_RANK=", state.rank)},
                                  {"TESSERA_FAULT_AT", cat(state.call)},
                                  {"TESSERA_FAULT_DOES", fault}}),
                          log);
  const Left left = left_in(checkpoints_of(out), trial.undisturbed, state.kind->replaces ? kStruck : 0);
  std::string problem = left.torn;
  const bool is_new = left.steps.contains(kStruck);
  ++tally.states;
  tally.torn += !left.torn.empty();
  tally.old += left.torn.empty() && !is_new;
  tally.fresh += left.torn.empty() && is_new;
  tally.warned += ended.text.find("warning: ") != std::string::npos;
  if (is_kill(fault)) {
    if (ended.code == 0) problem += "the job was not killed; ";
    const std::string lost = resume_problem(training(trial.binary, out, kSteps), out, trial.undisturbed, log);
    tally.lost += !lost.empty();
    problem += lost;
  } else {
    // A disk that stays full takes the last checkpoint from the run, which says so.
    const bool ends_well =
        left.newest == kSteps ? ended.code == 0 : fault == "full" && ended.code == kExitUserError;
    tally.ended += !ends_well;
    if (!ends_well)
      problem += cat("training ended with ", ended.code, ", newest step ", left.newest, ": ", ended.text);
  }
  if (!problem.empty())
    std::printf("%s, rank %d, call %ld (%s%s), %s: %s\n", state.kind->name, state.rank, state.call,
                state.what.c_str(), state.path.c_str(), fault.c_str(), problem.c_str());
  std::fflush(stdout);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::istringstream text(file_text(cat("/proc/", parent, "/task/", parent, "/children")));
  std::vector<pid_t> out;
  for (pid_t child; text >> child;) out.push_back(child);
  return out;
}

// Kills a rank, or the whole job, some time after the first checkpoint is there.
void kill_at_random(const Trial& trial, std::uint64_t index, Tally& one, Tally& all) {
  const auto draw = [&](std::uint64_t i) { return random_bits(trial.seed, index, i); };
  const bool kills_all = draw(0) % 2 == 0;
  Tally& tally = kills_all ? all : one;
  const fs::path out = trial.folder / "out", log = trial.folder / "log";
  fs::remove_all(out);
  const Job job = training(trial.binary, out, kManySteps);
  const pid_t launcher = start(job, log);
  const double begun = now_seconds();
  while (checkpoint::step_folders(checkpoints_of(out)).empty()) {
    TESSERA_CHECK(now_seconds() - begun < kPatienceSeconds, "no checkpoint came: ", file_text(log));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto ranks = children_of(launcher);
  std::this_thread::sleep_for(std::chrono::microseconds(draw(1) % 400'000));
  if (kills_all)
    kill(-launcher, SIGKILL);
  else if (!ranks.empty())
    kill(ranks[draw(2) % ranks.size()], SIGKILL);
  for (const pid_t rank : kills_all ? ranks : std::vector<pid_t>()) kill(rank, SIGKILL);
  const int code = wait_for(launcher);
  if (code == 0) return;  // it was over before the kill
  const Left left = left_in(checkpoints_of(out), trial.many);
  const bool was_saving = [&] {
    for (const auto& entry : fs::directory_iterator(checkpoints_of(out)))
      if (entry.path().filename().string().find(".saving-") != std::string::npos) return true;
    return false;
  }();
  ++tally.states;
  tally.torn += !left.torn.empty();
  tally.old += left.torn.empty() && was_saving;
  tally.fresh += left.torn.empty() && !was_saving;
  const std::string lost = resume_problem(training(trial.binary, out, kManySteps, {"checkpoint.every=1000"}),
                                          out, trial.many, log);
  tally.lost += !lost.empty();
  if (!left.torn.empty() || !lost.empty())
    std::printf("killed at random, %llu: %s %s\n", static_cast<unsigned long long>(index), left.torn.c_str(),
                lost.c_str());
  std::fflush(stdout);
}

int print_table(const std::vector<std::pair<std::string, Tally>>& rows) {
  std::vector<std::vector<std::string>> cells{{"what happened", "states", "old", "new", "torn", "warned",
                                               "training ended", "not resumed", "s a state"}};
  Tally sum;
  for (const auto& [name, t] : rows) {
    if (t.states == 0) continue;
    cells.push_back({name, cat(t.states), cat(t.old), cat(t.fresh), cat(t.torn), cat(t.warned), cat(t.ended),
                     cat(t.lost), fixed(t.seconds / t.states, 1)});
    sum.states += t.states, sum.old += t.old, sum.fresh += t.fresh, sum.torn += t.torn;
    sum.warned += t.warned, sum.ended += t.ended, sum.lost += t.lost, sum.seconds += t.seconds;
  }
  cells.push_back({"all", cat(sum.states), cat(sum.old), cat(sum.fresh), cat(sum.torn), cat(sum.warned),
                   cat(sum.ended), cat(sum.lost), fixed(sum.seconds / std::max(sum.states, 1), 1)});
  std::printf("%s", table(cells).c_str());
  return sum.torn + sum.ended + sum.lost;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("usage: crashes BINARY LIBRARY [states] [kills] [seed]"), 2;
  Trial trial{.binary = argv[1], .library = argv[2]};
  const std::size_t wanted = argc > 3 ? std::stoul(argv[3]) : 0;
  const std::uint64_t kills = argc > 4 ? std::stoull(argv[4]) : 300;
  trial.seed = argc > 5 ? std::stoull(argv[5]) : 1;
  std::string folder = (fs::canonical(fs::temp_directory_path()) / "crashes_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  trial.folder = folder;

  const fs::path out = trial.folder / "undisturbed", report = trial.folder / "report",
                 log = trial.folder / "log";
  Ended whole = run(training(trial.binary, out, kSteps, {"checkpoint.keep_last=0"}), log);
  TESSERA_CHECK(whole.code == 0, whole.text);
  trial.undisturbed = contents_of(checkpoints_of(out));

  std::vector<std::pair<State, std::string>> states;
  bool in_order = true;
  for (const Kind& kind : kKinds) {
    prepare(trial, kind, trial.folder / "out");
    fs::remove(report);
    whole = run(struck(trial, kind, trial.folder / "out", {{"TESSERA_FAULT_REPORT", report.string()}}), log);
    TESSERA_CHECK(whole.code == 0, whole.text);
    const auto calls = calls_of(file_text(report), kind);
    const std::string disorder = order_problem(calls);
    std::printf("a save %s: %zu calls on %d ranks; %s\n", kind.name, calls.size(), kRanks,
                disorder.empty() ? "synced in order" : disorder.c_str());
    in_order = in_order && disorder.empty();
    for (const State& state : calls)
      for (const std::string fault : kFaults)
        if (fault != "short" || state.what.find("write") != std::string::npos)
          states.emplace_back(state, fault);
  }
  std::printf("%zu states (seed %llu)\n", states.size(), static_cast<unsigned long long>(trial.seed));
  std::fflush(stdout);
  std::vector<std::pair<std::string, Tally>> rows;
  for (const char* fault : kFaults) rows.emplace_back(fault, Tally());
  const std::size_t count = wanted == 0 ? states.size() : std::min(wanted, states.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [state, fault] = states[i * states.size() / count];
    Tally& tally = std::ranges::find(rows, fault, &std::pair<std::string, Tally>::first)->second;
    const double begun = now_seconds();
    strike(trial, state, fault, tally);
    tally.seconds += now_seconds() - begun;
  }

  if (kills > 0) {
    whole = run(training(trial.binary, trial.folder / "many", kManySteps, {"checkpoint.keep_last=0"}), log);
    TESSERA_CHECK(whole.code == 0, whole.text);
    trial.many = contents_of(checkpoints_of(trial.folder / "many"));
  }
  Tally one, all;
  const double begun = now_seconds();
  for (std::uint64_t i = 0; static_cast<std::uint64_t>(one.states + all.states) < kills && i < 2 * kills; ++i)
    kill_at_random(trial, i, one, all);
  for (Tally* tally : {&one, &all})
    tally->seconds = (now_seconds() - begun) * tally->states / std::max(one.states + all.states, 1);
  rows.emplace_back("a rank killed at random", one);
  rows.emplace_back("all killed at random", all);
  const int failures = print_table(rows);
  fs::remove_all(folder);
  return failures == 0 && in_order ? 0 : 1;
}
