#include "tessera/train/servers/with_servers.hpp"

#include "tessera/base/clock.hpp"
#include "tessera/collective/part.hpp"
#include "tessera/train/servers/lines.hpp"
#include "tessera/train/servers/requests.hpp"
#include "tessera/train/servers/server.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

namespace {

using collective::Communicator;
using collective::PartCommunicator;

// A worker.
Summary work(const spec::Run& run, const Communicator& all, const Team& team, int worker,
             const LoopOptions& options) {
  const Lines lines = lines_of(all, team);
  const PartCommunicator with_servers(all, team.ranks_with(worker));
  Source source = source_of_steps(corpus_source(run.data, run.model), run, [worker](std::int64_t i) {
    return WorkerStep{worker, i + 1};
  });
  const spec::Run mine = run_of_worker(run);
  Session session(session_plan(mine), with_servers, std::move(source), {}, options.log);
  const bool is_first = !lines.to_server.empty();
  const auto ask = [&](Ask what) {
    if (is_first) send_number(lines.to_server[0], static_cast<std::int64_t>(what), 1);
  };
  const std::int64_t begin =
      numbers_of_first(lines.team, {is_first ? receive_number(lines.to_server[0], 1) : 0}).front();
  session.go_on_from({.step = begin,
                      .updates = begin,
                      .next_sample = static_cast<std::uint64_t>(begin * mine.training.global_batch)});
  double signal = 0;
  for (std::int64_t step = begin + 1; step <= run.training.steps; ++step) {
    signal = most_of(lines.team, options.stop ? options.stop->signal() : 0);
    if (signal != 0) break;
    session.read_ahead(1);
    ask(Ask::pull);
    session.begin_step();
    ask(Ask::push);
    const auto report = session.finish_step();
    if (options.log) options.log->held(report.at_peak.total());
  }
  ask(Ask::leave);
  if (is_first) lines.to_server[0].unfinished_sends(std::chrono::seconds(60));
  if (signal != 0 && options.stop) options.stop->take_over(static_cast<int>(signal), now_seconds());
  return {};
}

}  // namespace

Summary train_with_servers(const spec::Run& run, const collective::Communicator& communicator,
                           const LoopOptions& options) {
  const Team team(run.layout);
  if (const auto worker = run.layout.worker_of(communicator.rank()))
    return work(run, communicator, team, *worker, options);
  return serve_workers(run, communicator, team, options);
}

}  // namespace tessera::train
