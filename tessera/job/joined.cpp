#include "tessera/job/joined.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/process/activity.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/job/connect.hpp"
#include "tessera/job/reporter.hpp"
#include "tessera/launch/pin.hpp"
#include "tessera/launch/store/join_store.hpp"
#include "tessera/launch/store/unjoined.hpp"
#include "tessera/launch/watch/heartbeat.hpp"
#include "tessera/launch/watch/signals.hpp"
#include "tessera/launch/watch/watchdog.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tensor/told.hpp"

namespace tessera::job {
namespace {

using std::chrono::milliseconds;

// What rank 0 has besides: it watches all, and tells. Outlives the server, whose thread calls it.
class Head {
 public:
  Head(int num_ranks, double timeout_seconds, launch::RankDescriber describer)
      : watchdog_(num_ranks, timeout_seconds, std::move(describer),
                  [this](const std::string& message) { judge(message); }) {}

  launch::KeyServerCallbacks callbacks() {
    return {.on_report = [this](int rank, std::string_view bytes) { watchdog_.hear(rank, bytes); },
            .on_lost = [this](int rank) { watchdog_.lose(rank); }};
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
  launch::Watchdog watchdog_;
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

bool started_by_launcher() {
  const char* store = std::getenv("TESSERA_STORE");
  return store && std::string_view(store).starts_with("fd:");
}

std::optional<launch::Membership> joined_membership(launch::Joins joins) {
  if (started_by_launcher()) return std::nullopt;
  return launch::membership(launch::process_environment(), joins);
}

void expect_not_one_of_several(int procs) {
  if (procs != 0 || started_by_launcher()) return;
  if (const auto complaint = launch::unjoined(launch::process_environment())) throw UserError(*complaint);
}

int on_joined_rank(const spec::Run& run, const launch::Membership& membership,
                   const std::function<void(const Rank&)>& body, launch::RankDescriber describer,
                   Stops stops) {
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
    head.emplace(membership.world_size, run.cluster.timeout_seconds, std::move(describer));
  launch::JoinedStore store(
      membership,
      launch::store_options(launch::process_environment(), run.cluster.store, run.cluster.key_file, timeout),
      head ? head->callbacks() : launch::KeyServerCallbacks());
  const Serving serving(head ? &*head : nullptr, store.server());
  const auto communicator = connect(run, {store.keys(), store.peers()},
                                    {.rank = membership.rank,
                                     .size = membership.world_size,
                                     .local_rank = membership.local_rank,
                                     .prefix = cat(membership.job, "/", membership.generation)});
  const auto log = std::make_unique<ActivityLog>();
  Abort abort(*communicator, *log);
  Reporter reporter(store.reports(), *log, abort, timeout);
  const launch::Heartbeat heartbeat(*log, [&reporter] { reporter.report(); });
  try {
    body({.communicator = *communicator,
          .log = log.get(),
          .stop = &stop,
          .resident_bytes = [&log] { return std::vector{log->resident_bytes()}; },
          .peak_bytes = [&log] { return std::vector{log->peak_bytes()}; }});
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

}  // namespace tessera::job
