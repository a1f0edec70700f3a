#include "tessera/cli/joined.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "tessera/base/activity.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/queued_writer.hpp"
#include "tessera/cli/connect.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/launch/join_store.hpp"
#include "tessera/launch/pin.hpp"
#include "tessera/launch/pulse.hpp"
#include "tessera/launch/signals.hpp"
#include "tessera/launch/vigil.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tensor/told.hpp"

namespace tessera::cli {

namespace {

using std::chrono::milliseconds;

// To a standard error that may take nothing: then nobody is told, and the end does not wait for it.
void tell(const std::string& message) {
  constexpr double kPatienceSeconds = 1;
  QueuedWriter errors({.descriptor = STDERR_FILENO});
  errors.write(message);
  errors.wait(kPatienceSeconds);
}

// Ends this rank when the job is over for it: operations that wait for peers are broken off, and if that doesn't end
// the process soon, it is ended.
class Abort {
 public:
  Abort(const collective::Communicator& communicator, const ActivityLog& log)
      : communicator_(communicator), log_(log) {}

  bool is_due() const { return since_seconds_ > 0; }
  void begin() {
    if (is_due()) return;
    since_seconds_ = now_seconds();
    communicator_.abort();
  }
  void end_if_stuck() const {
    constexpr double kPatienceSeconds = 1.0;
    if (now_seconds() - since_seconds_ <= kPatienceSeconds) return;
    const int own = log_.state().error_code;
    _exit(own != 0 ? own : kExitPeerLost);
  }

 private:
  const collective::Communicator& communicator_;
  const ActivityLog& log_;
  std::atomic<double> since_seconds_ = 0;
};

// One rank's end of the watch: shows what it does, hears when the job is over.
class Reporter {
 public:
  Reporter(launch::KeyClient& reports, const ActivityLog& log, Abort& abort, milliseconds timeout)
      : reports_(reports), log_(log), abort_(abort), timeout_(timeout) {}

  // Thread edge: of main while it makes the pulse, of the pulse, or of main once that has failed.
  void report() {
    if (abort_.is_due()) return abort_.end_if_stuck();
    try {
      if (reports_.report(to_bytes(log_.state(), now_seconds()), timeout_)) abort_.begin();
    } catch (const PeerLost& lost) {
      if (!is_server_gone_.exchange(true))
        tell(cat("tessera: rank 0, where all ranks meet, is gone or silent: ", lost.what(), "\n"));
      abort_.begin();
    }
  }
  bool is_server_gone() const { return is_server_gone_; }

 private:
  launch::KeyClient& reports_;
  const ActivityLog& log_;
  Abort& abort_;
  milliseconds timeout_;
  std::atomic<bool> is_server_gone_ = false;
};

// What rank 0 has besides: it watches all, and tells. Outlives the server, whose thread calls it.
class Head {
 public:
  Head(int num_ranks, double timeout_seconds, launch::Words words)
      : vigil_(num_ranks, timeout_seconds, std::move(words),
               [this](const std::string& message) { judge(message); }) {}

  launch::KeyServerCallbacks callbacks() {
    return {.on_report = [this](int rank, std::string_view bytes) { vigil_.hear(rank, bytes); },
            .on_lost = [this](int rank) { vigil_.lose(rank); }};
  }
  // Until people have been told what happened, and the other ranks have had time to hear of it.
  void wait_until_told() {
    constexpr milliseconds kJudging{2000}, kHearing{500};
    std::unique_lock lock(mutex_);
    if (told_.wait_for(lock, kJudging, [this] { return is_told_; })) {
      lock.unlock();
      std::this_thread::sleep_for(kHearing);
    }
  }
  // Whom to tell that the job is over; null: nobody any more.
  void serve_with(launch::KeyServer* server) {
    const std::scoped_lock lock(mutex_);
    server_ = server;
  }

 private:
  void judge(const std::string& message) {
    tell(message);
    const std::scoped_lock lock(mutex_);
    if (server_) server_->abort("the job has failed");
    is_told_ = true;
    told_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable told_;
  bool is_told_ = false;
  launch::KeyServer* server_ = nullptr;
  launch::Vigil vigil_;
};

class Serving {
 public:
  Serving(Head* head, launch::KeyServer* server) : head_(head) {
    if (head_) head_->serve_with(server);
  }
  ~Serving() {
    if (head_) head_->serve_with(nullptr);
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  Head* head_;
};

}  // namespace

std::optional<launch::Membership> joined_membership() {
  if (started_by_launcher()) return std::nullopt;
  return launch::membership(launch::process_environment());
}

int on_joined_rank(const spec::Run& run, const launch::Membership& membership,
                   const std::function<void(const Rank&)>& body, launch::Words words, Stops stops) {
  StopRequest stop;
  std::optional<launch::StopOnSignals> signals;
  if (stops == Stops::between_steps)
    signals.emplace(stop, launch::StopOptions{run.cluster.grace_seconds, membership.rank == 0});
  // Before any thread is started: they inherit it.
  if (run.cluster.pin && !membership.is_bound)
    launch::pin_threads(membership.local_rank, membership.local_size);
  tensor::set_threads(1);
  const milliseconds timeout(static_cast<std::int64_t>(run.cluster.timeout_seconds * 1000));
  std::optional<Head> head;
  if (membership.rank == 0)
    head.emplace(membership.world_size, run.cluster.timeout_seconds, std::move(words));
  launch::JoinedStore store(
      membership,
      launch::store_options(launch::process_environment(), run.cluster.store, run.cluster.key_file, timeout),
      head ? head->callbacks() : launch::KeyServerCallbacks());
  const Serving serving(head ? &*head : nullptr, store.server());
  const auto communicator = connect(run, store.keys(), store.peers(),
                                    {.rank = membership.rank,
                                     .size = membership.world_size,
                                     .local_rank = membership.local_rank,
                                     .prefix = cat(membership.job, "/", membership.generation)});
  const auto log = std::make_unique<ActivityLog>();
  Abort abort(*communicator, *log);
  Reporter reporter(store.reports(), *log, abort, timeout);
  const launch::Pulse pulse(*log, [&reporter] { reporter.report(); });
  try {
    body({*communicator, log.get(), &stop, [&log] { return std::vector{log->resident_bytes()}; },
          [&log] { return std::vector{log->peak_bytes()}; }});
    const During finished(log.get(), Doing::finished);
    reporter.report();
    store.wait_for_others();
    return stop.exit_code();
  } catch (...) {
    const auto told = tensor::told(std::current_exception());
    log->fail(told.text, told.exit_code);
    reporter.report();
    if (reporter.is_server_gone()) tell(cat("tessera: ", told.text, "\n"));
    if (head) head->wait_until_told();
    return told.exit_code;
  }
}

}  // namespace tessera::cli
