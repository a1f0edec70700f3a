// Checks that a run survives a disk that fails while it writes its outputs. Small jobs of `tessera train`
// save, trace and log into one folder; the k-th call that changes a file there fails
// (tests/faults/preload.cpp), for every k and every reason:
//   - in a run that begins, in one process and on two ranks, and in one that resumes where lines of later
//     steps are there;
//   - with kills, at every call of the start of a resumed run: no line of the history may be lost.
// A run whose call fails must finish with exit code 0 (2 where a disk that stays full had no room for the
// last checkpoint), one line in metrics.jsonl for every step, and the lines that it superseded in their file.
//   outputs BINARY LIBRARY [states [share of]]      from the root of the tree; states 0: all of them; 1 4:
//                                                   the first of four processes that try them together
// Exits with 1 when a training ended or a line is lost.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/crashes/job.hpp"

namespace {

using namespace tessera;
using namespace tessera::crashes;

constexpr int kSteps = 4, kSaved = 2,
              kBefore = 4;  // steps of a run, what it saves, what an earlier one has made

struct Trial {
  std::string binary, library;
  fs::path folder;
  fs::path out() const { return folder / "out"; }
};

struct Kind {
  const char* name;
  bool goes_on;
  std::vector<std::string> options;
  const char* where;  // the process whose calls are counted
};
const std::vector<std::string> kOneProcess = {"cluster.transport=threads"};
const Kind kKinds[] = {{"begins, one process", false, kOneProcess, ""},
                       {"begins, rank 0 of two", false, {}, "TESSERA_RANK=0"},
                       {"begins, rank 1 of two", false, {}, "TESSERA_RANK=1"},
                       {"goes on, one process", true, kOneProcess, ""}};
constexpr const char* kFaults[] = {"enospc", "eio", "efbig", "short", "full"};
constexpr const char* kKills[] = {"kill-before", "kill-after"};

struct State {
  const Kind* kind = nullptr;
  std::string fault;
  long call = 0;
  std::string what, path;
};

struct Tally {
  int states = 0, warned = 0, ended = 0, lost = 0, incomplete = 0;
};

Job job(const Trial& trial, const Kind& kind, const std::map<std::string, std::string>& fault) {
  const fs::path out = trial.out();
  std::vector<std::string> more = kind.options;
  more.insert(more.end(), {cat("checkpoint.every=", kSaved), "--trace", (out / "trace.json").string()});
  Job made = training(trial.binary, out, kSteps + (kind.goes_on ? kSaved : 0), more);
  made.environment = fault;
  made.environment["LD_PRELOAD"] = trial.library;
  made.environment["TESSERA_FAULT_FOLDER"] = out.string();
  made.environment["TESSERA_FAULT_WHERE"] = kind.where;
  return made;
}

// An empty folder, or one with the checkpoint of step 2 and lines of steps 1 to 4.
void prepare(const Trial& trial, const Kind& kind) {
  fs::remove_all(trial.out());
  if (kind.goes_on)
    fs::copy(trial.folder / "before", trial.out(), fs::copy_options::recursive);
  else
    fs::create_directories(trial.out());
}

// Lines of a file of JSON lines, by step.
std::multimap<std::int64_t, std::string> lines_of(const fs::path& path) {
  std::multimap<std::int64_t, std::string> out;
  std::istringstream lines(file_text(path));
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("\"step\": ");
    const bool is_whole = at != line.npos && line.ends_with('}') && line.find("\"loss\": ") != line.npos;
    out.emplace(is_whole ? std::stoll(line.substr(at + 8)) : -1, line);
  }
  return out;
}

// Steps 1 to `last`, a line each, and nothing else; what is wrong with it.
std::string metrics_problem(const Trial& trial, std::int64_t last) {
  const auto lines = lines_of(trial.out() / "metrics.jsonl");
  std::string out;
  for (std::int64_t step = 1; step <= last; ++step)
    if (lines.count(step) != 1) out += cat(lines.count(step), " lines of step ", step, "; ");
  if (std::ssize(lines) != last) out += cat(lines.size(), " lines; ");
  return out;
}

// Every line of the earlier run is in one file or the other.
std::string history_problem(const Trial& trial) {
  const std::string now =
      file_text(trial.out() / "metrics.jsonl") + file_text(trial.out() / "metrics.superseded.jsonl");
  std::istringstream before(file_text(trial.folder / "before/metrics.jsonl"));
  std::string out;
  for (std::string line; std::getline(before, line);)
    if (now.find(line + "\n") == now.npos) out += cat("lost: ", line.substr(0, 12), "; ");
  return out;
}

void strike(const Trial& trial, const State& state, Tally& tally) {
  prepare(trial, *state.kind);
  const Ended ended = run(
      job(trial, *state.kind, {{"TESSERA_FAULT_AT", cat(state.call)}, {"TESSERA_FAULT_DOES", state.fault}}),
      trial.folder / "log");
  ++tally.states;
  tally.warned += ended.text.find("warning: ") != std::string::npos;
  const bool is_kill = state.fault.starts_with("kill");
  std::string problem;
  const bool is_unsaved = state.fault == "full" && ended.code == kExitUserError &&
                          ended.text.find("the last of this run, could not be saved") != std::string::npos;
  const bool ends_badly = !is_kill && ended.code != 0 && !is_unsaved;
  if (ends_badly) problem += cat("training ended with ", ended.code, "; ");
  tally.ended += ends_badly;
  std::string lost = state.kind->goes_on ? history_problem(trial) : "";
  // A disk that stays full keeps lines out, and says so.
  const bool is_told = ended.text.find("metrics.jsonl' is incomplete") != std::string::npos;
  tally.incomplete += is_told;
  if (!is_kill && !(state.fault == "full" && is_told))
    lost += metrics_problem(trial, kSteps + (state.kind->goes_on ? kSaved : 0));
  tally.lost += !lost.empty();
  problem += lost;
  if (!problem.empty())
    std::printf("%s, %s at call %ld (%s%s): %s\n%s\n", state.kind->name, state.fault.c_str(), state.call,
                state.what.c_str(), state.path.c_str(), problem.c_str(), ended.text.c_str());
  std::fflush(stdout);
}

// All calls of an undisturbed run, each with every fault.
std::vector<State> states_of(const Trial& trial, const Kind& kind) {
  const fs::path report = trial.folder / "report";
  fs::remove(report);
  prepare(trial, kind);
  const Ended whole =
      run(job(trial, kind, {{"TESSERA_FAULT_REPORT", report.string()}}), trial.folder / "log");
  TESSERA_CHECK(whole.code == 0, whole.text);
  TESSERA_CHECK(metrics_problem(trial, kSteps + (kind.goes_on ? kSaved : 0)).empty(),
                "undisturbed: ", whole.text);
  std::vector<State> out;
  std::istringstream lines(file_text(report));
  bool starts = true;  // until the first new line is written
  std::string rank;
  for (State state{.kind = &kind};
       lines >> rank >> state.call >> state.what && std::getline(lines, state.path);) {
    starts = starts && state.path.find(".saving-") == std::string::npos;
    for (const char* fault : kFaults)
      if (std::string_view(fault) != "short" || state.what.find("write") != std::string::npos)
        out.push_back(state), out.back().fault = fault;
    for (const char* kill : kKills)
      if (kind.goes_on && starts) out.push_back(state), out.back().fault = kill;
  }
  std::printf("a run that %s: %ld calls\n", kind.name, out.empty() ? 0 : out.back().call);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("usage: outputs BINARY LIBRARY [states [share of]]"), 2;
  Trial trial{.binary = argv[1], .library = argv[2]};
  const std::size_t wanted = argc > 3 ? std::stoul(argv[3]) : 0, share = argc > 5 ? std::stoul(argv[4]) : 1,
                    shares = argc > 5 ? std::stoul(argv[5]) : 1;
  std::string folder = (fs::canonical(fs::temp_directory_path()) / "outputs_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  trial.folder = folder;

  const Ended before = run(training(trial.binary, trial.folder / "before", kBefore,
                                    {cat("checkpoint.every=", kSaved), "checkpoint.keep_last=0"}),
                           trial.folder / "log");
  TESSERA_CHECK(before.code == 0, before.text);
  fs::remove_all(checkpoint::step_folder(checkpoints_of(trial.folder / "before"), kBefore).path);
  std::vector<State> states;
  for (const Kind& kind : kKinds)
    for (State& state : states_of(trial, kind)) states.push_back(std::move(state));
  const std::size_t count = wanted == 0 ? states.size() : std::min(wanted, states.size());
  std::printf("%zu states, %zu of them are tried\n", states.size(), count);
  std::fflush(stdout);

  std::map<std::string, Tally> tallies;
  const double begun = now_seconds();
  std::size_t tried = 0;
  for (std::size_t i = share - 1; i < count; i += shares) {
    const State& state = states[i * states.size() / count];
    strike(trial, state, tallies[state.fault]);
    if (++tried % 100 == 0)
      std::printf("  %zu states tried, %.0f min left\n", tried,
                  (now_seconds() - begun) / 60 * static_cast<double>((count - i) / shares) /
                      static_cast<double>(tried));
  }
  std::vector<std::vector<std::string>> rows{
      {"what happened", "states", "warned", "told incomplete", "trainings ended", "history lines lost"}};
  Tally sum;
  for (const auto& [name, t] : tallies) {
    rows.push_back({name, cat(t.states), cat(t.warned), cat(t.incomplete), cat(t.ended), cat(t.lost)});
    sum.states += t.states, sum.warned += t.warned, sum.ended += t.ended, sum.lost += t.lost;
    sum.incomplete += t.incomplete;
  }
  rows.push_back(
      {"all", cat(sum.states), cat(sum.warned), cat(sum.incomplete), cat(sum.ended), cat(sum.lost)});
  std::printf("%s", table(rows).c_str());
  if (sum.ended + sum.lost == 0) fs::remove_all(folder);
  return sum.ended + sum.lost == 0 ? 0 : 1;
}
