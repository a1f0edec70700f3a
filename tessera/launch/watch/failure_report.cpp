#include "tessera/launch/watch/failure_report.hpp"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

bool is_crash(int signal) {
  const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
  return std::ranges::find(crashes, signal) != std::end(crashes);
}

// What the system measured when it sent this signal, and by which limit; null for any other signal. Starting
// again would end the same way.
const char* limit_of(int signal) {
  if (signal == SIGXFSZ) return "the size of a file (ulimit -f)";
  if (signal == SIGXCPU) return "processor time (ulimit -t)";
  return nullptr;
}

// What the others were doing: ranks at the same thing share a line, most ranks first.
std::string others_text(int rank, const Snapshot& snapshot, const RankDescriber& describer) {
  constexpr std::size_t kMostLines = 4;
  std::map<std::tuple<Doing, std::int32_t, std::int64_t>, std::vector<int>> at;
  for (int other = 0; other < static_cast<int>(snapshot.states.size()); ++other) {
    if (other == rank) continue;
    const Activity now = snapshot.states[static_cast<std::size_t>(other)].busiest();
    at[{now.doing, now.op, now.step}].push_back(other);
  }
  std::vector<std::vector<int>> groups;
  for (auto& [key, ranks] : at) groups.push_back(std::move(ranks));
  std::ranges::stable_sort(groups, std::greater<>(), &std::vector<int>::size);
  std::string out;
  for (std::size_t i = 0; i < groups.size() && i < kMostLines; ++i) {
    const int first = groups[i].front();
    out += cat("  ", ranks_text(groups[i]), groups[i].size() == 1 ? " was " : " were ",
               describer.doing(first, snapshot.states[static_cast<std::size_t>(first)], snapshot.now_seconds),
               "\n");
  }
  if (groups.size() > kMostLines) out += cat("  and ", groups.size() - kMostLines, " other places\n");
  return out;
}

std::string advice(const Ending& ending) {
  if (ending.signal == SIGKILL)
    return "  Something outside Tessera killed it; often the system does so when memory runs out (dmesg "
           "tells). Give each rank less to hold (layout.micro_batch), or start again.\n";
  if (const char* limit = limit_of(ending.signal))
    return cat("  A limit of ", limit,
               " ended it. Raise the limit: starting again would end the same way.\n");
  if (ending.signal && !is_crash(ending.signal))
    return "  Something outside Tessera ended it. Start again when the cause is gone.\n";
  if (ending.signal || ending.code == kExitBug)
    return "  This is a bug in Tessera or in a library it uses: please report it with this message.\n";
  if (ending.code == kExitPeerLost) return "  Starting again may help.\n";
  return "";
}

}  // namespace

RankDescriber plain_describer() {
  const auto doing = [](int, const RankState& state, double) {
    return std::string(state.beat_seconds == 0 ? "not heard of" : "at work");
  };
  return {doing, [](std::span<const RankState>, double) { return Culprit{-1, "no rank stands out"}; }};
}

std::string stopping_text(int signal, double grace_seconds) {
  return cat("\ntessera: signal ", signal, " (", sigdescr_np(signal), "): stopping after this step, within ",
             fixed(grace_seconds, 1), " s; once more to end at once\n");
}

std::string grace_text(int signal, double grace_seconds) {
  return cat("tessera: the job did not stop within ", fixed(grace_seconds, 1), " s of signal ", signal, " (",
             sigdescr_np(signal), ") and is ended; steps since the last checkpoint are lost.\n",
             "  If a step and a save may take this long, raise cluster.grace_seconds.\n");
}

std::string ending_text(int rank, const Ending& ending, const Snapshot& snapshot,
                        const RankDescriber& describer) {
  const RankState& state = snapshot.states[static_cast<std::size_t>(rank)];
  const bool watched = state.beat_seconds > 0;
  const std::string where = watched ? cat(", ", describer.doing(rank, state, snapshot.now_seconds)) : "";
  std::string out = cat("tessera: rank ", rank, " failed first (", to_text(ending), where, ")");
  if (!state.error.empty()) out += cat(": ", state.error);
  out += "\n";
  if (watched) out += others_text(rank, snapshot, describer);
  return out + advice(ending);
}

std::string lost_text(int rank, const Snapshot& snapshot, const RankDescriber& describer) {
  const RankState& state = snapshot.states[static_cast<std::size_t>(rank)];
  return cat("tessera: rank ", rank, " is gone (last seen ",
             describer.doing(rank, state, snapshot.now_seconds), ")\n",
             others_text(rank, snapshot, describer), "  Starting again may help.\n");
}

std::string hang_text(const Culprit& culprit, double timeout_seconds, const std::string& note) {
  return cat("tessera: no progress for ", fixed(timeout_seconds, 1), " s: ", culprit.sentence, ".\n",
             note.empty() ? "" : cat("  ", note, "\n"),
             "  If a step may take this long, raise cluster.timeout_seconds (now ", fixed(timeout_seconds, 1),
             ").\n");
}

bool is_of_limit(const Ending& ending) { return limit_of(ending.signal) != nullptr; }

int job_exit_code(const Ending& ending) {
  if (ending.signal == 0) return ending.code;
  if (is_of_limit(ending)) return kExitUserError;
  return is_crash(ending.signal) ? kExitBug : kExitPeerLost;
}

}  // namespace tessera::launch
