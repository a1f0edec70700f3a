// Checks that the sentence about a hang names the guilty rank. Hangs of eight kinds are put into real jobs of
// four processes.
//   hangs [tries per kind] [seed]        exits with 1 when fewer than 95 % of the sentences name rank and op
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/process/activity.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/collective/transports/sockets/sockets.hpp"
#include "tessera/job/rank_describer.hpp"
#include "tessera/launch/spawn.hpp"
#include "tessera/launch/store/key_client.hpp"
#include "tessera/launch/store/peers.hpp"
#include "tessera/launch/watch/heartbeat.hpp"
#include "tessera/launch/watch/status_board.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/diagnose/hang_diagnosis.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tensor/told.hpp"
#include "tessera/train/session.hpp"

namespace {

using namespace tessera;
using namespace std::chrono_literals;
using program::Op;
using program::OpKind;
using program::Program;

constexpr int kRanks = 4;
constexpr double kTimeoutSeconds = 2.0;

enum class Kind { missing_send, missing_receive, other_order, stopped, slow, asleep, data_stall, disk_stall };
constexpr Kind kKinds[] = {Kind::missing_send, Kind::missing_receive, Kind::other_order, Kind::stopped,
                           Kind::slow,         Kind::asleep,          Kind::data_stall,  Kind::disk_stall};
constexpr const char* kNames[] = {"missing send", "missing receive", "other order", "stopped rank",
                                  "slow rank",    "rank asleep",     "data stall",  "disk stall"};

// One hang, from one number.
struct Hang {
  Kind kind = Kind::stopped;
  int guilty = 0, other = 1;  // other: the far end of a transfer
  std::int64_t step = 3;
  std::uint32_t op = 5;  // where the rank stops or sleeps
  bool overlap = true;
};

Hang make_hang(Kind kind, std::uint64_t seed) {
  auto draw = [&, i = std::uint64_t{0}](std::uint64_t below) mutable {
    return random_bits(seed, static_cast<std::uint64_t>(kind), i++) % below;
  };
  Hang hang{.kind = kind};
  hang.guilty = static_cast<int>(draw(kRanks));
  hang.other = (hang.guilty + 1 + static_cast<int>(draw(kRanks - 1))) % kRanks;
  hang.step = 2 + static_cast<std::int64_t>(draw(4));
  hang.op = static_cast<std::uint32_t>(1 + draw(10));
  hang.overlap = draw(2) == 0;
  return hang;
}

spec::Run make_run(const Hang& hang) {
  spec::Run run;
  run.model = {.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .vocab = 128, .sequence = 32};
  run.training.global_batch = 8;
  run.training.steps = 1000;
  run.layout.dp_replicate = kRanks;
  run.layout.micro_batch = 2;
  // In the order kinds everything runs on one lane: then an order can be wrong.
  run.layout.overlap = hang.kind >= Kind::stopped && hang.overlap;
  return run;
}

void insert(program::Sequence& sequence, const program::Tables& tables, const std::string& before,
            OpKind what, std::int16_t hop) {
  const auto place =
      std::ranges::find_if(sequence.ops, [&](const Op& op) { return program::word(op, tables) == before; });
  TESSERA_CHECK(place != sequence.ops.end(), "no op ", before);
  Op op;
  op.what = what;
  op.micro = 0;
  op.along = 0;
  op.hop = hop;
  sequence.ops.insert(place, op);
}

// The program by hand: class 1 is the guilty rank, class 2 the far end. The checker is not asked.
Program make_program(const Hang& hang) {
  Program edited = plan::compile(make_run(hang));
  if (hang.kind > Kind::other_order) return edited;
  edited.classes.resize(3, edited.classes[0]);
  edited.tables.class_of_rank.assign(kRanks, 0);
  edited.tables.class_of_rank[static_cast<std::size_t>(hang.guilty)] = 1;
  edited.tables.class_of_rank[static_cast<std::size_t>(hang.other)] = 2;
  const auto hop = static_cast<std::int16_t>(hang.other - hang.guilty);
  const auto back = static_cast<std::int16_t>(-hop);
  auto& guilty = edited.classes[1];
  auto& other = edited.classes[2];
  if (hang.kind == Kind::missing_send) insert(other, edited.tables, "1F0", OpKind::receive, back);
  if (hang.kind == Kind::missing_receive) insert(other, edited.tables, "1F0", OpKind::send, back);
  if (hang.kind == Kind::other_order) {
    insert(other, edited.tables, "1F0", OpKind::receive, back);
    insert(guilty, edited.tables, "+loss", OpKind::send, hop);  // after the reductions: too late
  }
  for (auto& sequence : edited.classes) program::build_waits(sequence, edited.tables);
  return edited;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

double sleep_seconds = 0;
std::atomic<bool> must_wake = false;
void sleep_in_handler(int) {
  const double end = now_seconds() + sleep_seconds;
  while (!must_wake && now_seconds() < end) {
    timespec left{0, 10'000'000};
    nanosleep(&left, nullptr);
  }
}

// Waits until this rank is in the op, then stops it or puts it to sleep, where it is. It sleeps while it
// computes: of a meeting that all have come to, nobody outside can tell which rank does not get on with it.
void strike(const Hang& hang, const ActivityLog& log, pthread_t main) {
  const auto wait_for = [&](std::int64_t step) {
    while (true) {
      const auto state = log.state();
      const Activity* now = state.now();
      const bool computes = hang.kind == Kind::stopped || (now && now->doing == Doing::computing);
      if (computes && now && now->step >= step && now->op >= static_cast<std::int32_t>(hang.op)) return;
    }
  };
  for (std::int64_t step = hang.step;; ++step) {
    wait_for(step);
    if (hang.kind == Kind::stopped) kill(getpid(), SIGSTOP);
    must_wake = false;
    pthread_kill(main, SIGUSR1);
    std::this_thread::sleep_for(300ms);  // it takes the signal when it runs again
    const auto state = log.state();
    if (state.now()->doing == Doing::computing) {
      std::ofstream(environment("HANG_FOLDER") + "/op") << state.now()->op;
      return;
    }
    must_wake = true;
    step = state.now()->step;
  }
}

int run_rank(const Hang& hang) {
  const int rank = std::stoi(environment("TESSERA_RANK"));
  tensor::set_threads(1);
  launch::StatusBoard board(
      launch::inherited_descriptor(environment("TESSERA_BOARD").substr(3), "TESSERA_BOARD"), kRanks);
  ActivityLog& log = board.log(rank);
  const launch::Heartbeat heartbeat(log);
  try {
    launch::KeyClient keys(
        launch::inherited_descriptor(environment("TESSERA_STORE").substr(3), "TESSERA_STORE"), rank);
    const auto peers = launch::local_peers(keys);
    const collective::SocketCommunicator communicator(*peers, {.rank = rank, .size = kRanks});
    const bool is_guilty = rank == hang.guilty;
    const auto run = make_run(hang);
    const Program program = make_program(hang);
    const auto random = train::random_source(run.model);
    std::int64_t step = 0;
    const auto source = [&](auto samples, auto tokens, auto targets, auto documents) {
      if (is_guilty && hang.kind == Kind::data_stall && step == hang.step) pause();
      random(samples, tokens, targets, documents);
    };
    train::Session session(train::session_plan(run, program), communicator, source, {}, &log);
    metrics::OutFile records(environment("HANG_FOLDER") + cat("/metrics.", rank), "HANG_FOLDER");
    sleep_seconds = hang.kind == Kind::slow ? 2 * kTimeoutSeconds + 2 : 3600;
    signal(SIGUSR1, sleep_in_handler);
    if (is_guilty && hang.kind >= Kind::stopped && hang.kind <= Kind::asleep)
      std::thread(strike, hang, std::cref(log), pthread_self()).detach();
    for (step = 1; step <= run.training.steps; ++step) {
      const auto report = session.step();
      const During writing(&log, Doing::writing, step);
      // Enough to fill a pipe that nobody reads.
      const bool many = is_guilty && hang.kind == Kind::disk_stall && step >= hang.step;
      for (int i = 0; i < (many ? 4000 : 1); ++i)
        records.write(metrics::json_object(metrics::Record{{"step", step}, {"loss", report.loss}}) + "\n");
    }
    return 0;
  } catch (...) {
    const auto told = tensor::told(std::current_exception());
    log.fail(told.text, told.exit_code);
    return told.exit_code;
  }
}

struct Outcome {
  bool named = false;
  double seconds = 0;  // of the whole job
  std::string text;
};

// What a person must be able to read in the sentence, besides "rank <guilty>".
std::string expected_words(Kind kind) {
  switch (kind) {
    case Kind::missing_send:
      return "never issued the send";
    case Kind::missing_receive:
      return "never issued the receive";
    case Kind::other_order:
      return "wait for each other";
    case Kind::stopped:
      return "silent for";
    case Kind::slow:
    case Kind::asleep:
      return "op ";
    case Kind::data_stall:
      return "reading the data";
    case Kind::disk_stall:
      return "writing metrics";
  }
  return "";
}

Outcome run_job(const Hang& hang, std::uint64_t seed, const std::string& self) {
  std::string folder = (std::filesystem::temp_directory_path() / "hangs_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  setenv("HANG_FOLDER", folder.c_str(), 1);
  if (hang.kind == Kind::disk_stall) {
    const std::string fifo = cat(folder, "/metrics.", hang.guilty);
    TESSERA_CHECK(mkfifo(fifo.c_str(), 0600) == 0, "no fifo");
    // Held open, so that writers find a reader, which never reads; closed with this process.
    open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  }
  launch::SpawnOptions options;
  options.num_ranks = kRanks;
  options.command = {self, "rank", cat(static_cast<int>(hang.kind)), cat(seed)};
  options.timeout_seconds = kTimeoutSeconds;
  options.describer = job::describer_of([hang] { return make_program(hang); });
  program::Verdict verdict;
  options.describer.culprit = [&](std::span<const RankState> states, double now) {
    verdict = program::find_culprit(make_program(hang), states, now);
    return launch::Culprit{verdict.rank, verdict.sentence};
  };
  const std::string report = folder + "/report";
  options.report_descriptor = open(report.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  const double start = now_seconds();
  const int code = launch::run_local_ranks(options);
  Outcome outcome{.seconds = now_seconds() - start};
  outcome.text = file_text(report);
  const auto says = [&](const std::string& describer) {
    return outcome.text.find(describer) != std::string::npos;
  };
  // In another order both are named: which of the two was edited is not to be seen from their programs.
  if (hang.kind == Kind::other_order)
    outcome.named = says(cat("rank ", hang.guilty, " ")) && says(cat("rank ", hang.other, " ")) &&
                    says("receive of value hidden.0") && says("wait for each other");
  else
    outcome.named = verdict.rank == hang.guilty && says(expected_words(hang.kind));
  if (hang.kind == Kind::slow || hang.kind == Kind::asleep) {
    std::int32_t op = -1;
    std::ifstream(folder + "/op") >> op;
    outcome.named = outcome.named && verdict.op == op && says(cat("op ", op, " ("));
  }
  outcome.named = outcome.named && code == kExitPeerLost;
  close(options.report_descriptor);
  std::filesystem::remove_all(folder);
  return outcome;
}

int run_all(int tries, std::uint64_t seed, const std::string& self) {
  std::vector<std::vector<std::string>> rows{{"kind", "hangs", "named", "median seconds", "an example"}};
  int named = 0, total = 0;
  for (const Kind kind : kKinds) {
    std::vector<double> seconds;
    int right = 0;
    std::string example;
    for (int i = 0; i < tries; ++i, ++total) {
      const std::uint64_t own = seed + static_cast<std::uint64_t>(i);
      const auto outcome = run_job(make_hang(kind, own), own, self);
      seconds.push_back(outcome.seconds);
      right += outcome.named;
      if (example.empty()) example = outcome.text.substr(0, outcome.text.find('\n'));
      if (!outcome.named)
        std::printf("NOT NAMED: %s, seed %llu: %s\n", kNames[static_cast<int>(kind)],
                    static_cast<unsigned long long>(own), outcome.text.c_str());
      std::fflush(stdout);
    }
    named += right;
    rows.push_back(
        {kNames[static_cast<int>(kind)], cat(tries), cat(right), fixed(median(seconds), 1), example});
  }
  std::printf(
      "%s\n%d of %d sentences name the guilty rank and op (time-out %.1f s, %d processes, seed %llu)\n",
      table(rows).c_str(), named, total, kTimeoutSeconds, kRanks, static_cast<unsigned long long>(seed));
  return named * 100 >= total * 95 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "rank") {
    const std::uint64_t seed = std::stoull(argv[3]);
    return run_rank(make_hang(static_cast<Kind>(std::stoi(argv[2])), seed));
  }
  return run_all(argc > 1 ? std::stoi(argv[1]) : 5, argc > 2 ? std::stoull(argv[2]) : 1, "/proc/self/exe");
}
