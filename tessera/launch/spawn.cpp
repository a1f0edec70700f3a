#include "tessera/launch/spawn.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/child.hpp"
#include "tessera/launch/key_server.hpp"

namespace tessera::launch {
namespace {

// While it lives, SIGINT, SIGTERM and SIGCHLD arrive as data of a descriptor.
class SignalMailbox {
 public:
  SignalMailbox() {
    sigset_t heard;
    sigemptyset(&heard);
    for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&heard, number);
    pthread_sigmask(SIG_BLOCK, &heard, &before_);
    descriptor_ = Descriptor(signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
    CHECK(static_cast<bool>(descriptor_), system_reason());
  }
  ~SignalMailbox() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalMailbox(const SignalMailbox&) = delete;
  SignalMailbox& operator=(const SignalMailbox&) = delete;

  int descriptor() const { return descriptor_.number(); }
  // SIGINT or SIGTERM, if one has come; 0 if not.
  int take_request_to_end() {
    int request = 0;
    signalfd_siginfo info;
    while (read(descriptor_.number(), &info, sizeof(info)) == sizeof(info))
      if (info.ssi_signo != SIGCHLD) request = static_cast<int>(info.ssi_signo);
    return request;
  }

 private:
  sigset_t before_;
  Descriptor descriptor_;
};

std::vector<std::string> environment_of(int rank, const SpawnOptions& options, const Descriptor& store) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const auto is_ours = [&](std::string_view name) { return text.starts_with(name); };
    const auto ours = {
        "TESSERA_RANK=", "TESSERA_WORLD_SIZE=", "TESSERA_STORE=", "TESSERA_JOB=", "TESSERA_GENERATION="};
    if (std::ranges::none_of(ours, is_ours)) out.emplace_back(text);
  }
  out.push_back(cat("TESSERA_RANK=", rank));
  out.push_back(cat("TESSERA_WORLD_SIZE=", options.num_ranks));
  out.push_back(cat("TESSERA_STORE=fd:", store.number()));
  out.push_back(cat("TESSERA_JOB=", options.job));
  out.push_back(cat("TESSERA_GENERATION=", options.generation));
  return out;
}

std::string last_line(std::string_view text) {
  const auto end = text.find_last_not_of('\n');
  if (end == text.npos) return "";
  text = text.substr(0, end + 1);
  const auto before = text.rfind('\n');
  return std::string(before == text.npos ? text : text.substr(before + 1));
}

void tell(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

// A rank takes two descriptors of the launcher: its stderr and its connection to the key server.
void reserve_descriptors(int num_ranks) {
  const rlim_t needed = 2 * static_cast<rlim_t>(num_ranks) + 32;
  rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, system_reason());
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed)
    throw UserError(cat(num_ranks, " ranks need ", needed,
                        " open files in the launcher, but the system allows ", limit.rlim_max,
                        ". Raise the limit (ulimit -Hn ", needed, ") or start fewer ranks."));
  limit.rlim_cur = needed;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, system_reason());
}

class Job {
 public:
  explicit Job(const SpawnOptions& options) : options_(options) {}

  int run() {
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      const Descriptor store = server_.connect();
      children_.emplace_back(options_.command, environment_of(rank, options_, store), store);
    }
    while (count_running() > 0) {
      look_for_failure();
      end_if_due();
      wait_for_news();
    }
    look_for_failure();
    tell_all();
    if (request_) return 128 + request_;
    return first_ ? ending(*first_).code : 0;
  }

 private:
  const Ending& ending(std::size_t rank) { return *children_[rank].ending(); }

  int count_running() {
    return static_cast<int>(std::ranges::count_if(children_, [](Child& child) { return !child.ending(); }));
  }

  // A rank that lost a peer may end before the peer that was lost: it counts as first only if no other cause is seen.
  void look_for_failure() {
    if (request_ || ending_since_seconds_ >= 0) return;
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      const auto& end = children_[rank].ending();
      if (!end || end->code == 0) continue;
      if (!first_ || (ending(*first_).code == kExitPeerLost && end->code != kExitPeerLost)) first_ = rank;
      if (failed_since_seconds_ < 0) failed_since_seconds_ = now_seconds();
    }
  }

  void end_if_due() {
    constexpr double kSecondsForTheCause = 0.5;
    const double now = now_seconds();
    if (ending_since_seconds_ < 0) {
      const bool is_cause_known = first_ && (ending(*first_).code != kExitPeerLost ||
                                             now - failed_since_seconds_ > kSecondsForTheCause);
      if (!request_ && !is_cause_known) return;
      server_.abort(request_ ? "the job was interrupted"
                             : cat("rank ", *first_, " failed (", to_text(ending(*first_)), ")"));
      ending_since_seconds_ = now;
      for (const auto& child : children_) child.signal(SIGTERM);
    } else if (now - ending_since_seconds_ > std::chrono::duration<double>(options_.patience).count()) {
      for (const auto& child : children_) child.signal(SIGKILL);
    }
  }

  void wait_for_news() {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    for (const auto& child : children_) polled.push_back({child.errors_descriptor(), POLLIN, 0});
    // SIGCHLD may go to another thread of this process, so the children are looked at now and then anyway.
    constexpr int kLookMilliseconds = 100;
    poll(polled.data(), polled.size(), kLookMilliseconds);
    if (const int request = signals_.take_request_to_end(); request && !request_) request_ = request;
    for (auto& child : children_) child.collect_errors();
  }

  void tell_all() {
    std::string text;
    if (request_) {
      text = cat("interrupted by signal ", request_, ": all ranks are ended\n");
    } else if (first_) {
      const std::string& errors = children_[*first_].errors();
      text = cat("rank ", *first_, " failed first (", to_text(ending(*first_)), "): ", errors,
                 errors.ends_with('\n') ? "" : "\n");
    }
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      const std::string& errors = children_[rank].errors();
      if (first_ == rank && !request_) continue;
      if (first_ || request_) {
        const std::string line = last_line(errors);
        text += cat("rank ", rank, ": ", to_text(ending(rank)), line.empty() ? "" : ": ", line, "\n");
      } else if (!errors.empty()) {
        text += cat("rank ", rank, " said: ", errors, errors.ends_with('\n') ? "" : "\n");
      }
    }
    tell(options_.report_descriptor, text);
  }

  const SpawnOptions& options_;
  SignalMailbox signals_;  // before the server, whose thread must not take the signals
  KeyServer server_;
  std::vector<Child> children_;
  int request_ = 0;                   // a signal to the launcher
  std::optional<std::size_t> first_;  // the rank that failed first
  double failed_since_seconds_ = -1;
  double ending_since_seconds_ = -1;
};

}  // namespace

int run_local_ranks(const SpawnOptions& options) {
  if (options.num_ranks < 1)
    throw UserError(cat("cannot start ", options.num_ranks, " ranks; at least 1 is needed"));
  CHECK(!options.command.empty(), "no command to start");
  reserve_descriptors(options.num_ranks);
  return Job(options).run();
}

}  // namespace tessera::launch
