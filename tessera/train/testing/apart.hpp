// Replicas that make local steps, as threads.
#pragma once

#include <functional>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/replicas.hpp"

namespace tessera::train {

struct Apart {
  std::vector<double> losses;  // of each step all replicas', one after the other
  std::int64_t exchanged_bytes = 0;
};

// As the loop trains; `look` sees each session at the end.
inline Apart train_apart(const spec::Run& run, const Source& source,
                         const std::function<void(const Replicas&, Session&)>& look = {},
                         const collective::RunRanks& run_ranks = collective::run_ranks) {
  Apart out;
  const auto replicas_of_run = static_cast<std::size_t>(run.layout.dp_replicate);
  out.losses.resize(static_cast<std::size_t>(run.training.steps) * replicas_of_run);
  run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& all) {
    Replicas replicas(run, all);
    Session session(session_plan(replicas.run()), replicas.communicator(), replicas.source(source));
    replicas.begin(session);
    const bool tells = replicas.communicator().rank() == 0;
    const auto inner = static_cast<std::size_t>(run.layout.ranks() / run.layout.pp / run.layout.dp_replicate);
    const auto number = static_cast<std::size_t>(all.rank()) / inner % replicas_of_run;
    for (std::int64_t step = 1; step <= run.training.steps; ++step) {
      if (replicas.meet_after(step - 1)) {
        replicas.sums({1});
        replicas.exchange(step - 1, false);
      }
      const auto report = session.step();
      if (tells) out.losses[static_cast<std::size_t>(step - 1) * replicas_of_run + number] = report.loss;
      replicas.after_step(step, step == run.training.steps);
      if (all.rank() == 0)
        for (const MovedAlong& moved : replicas.take_moved()) out.exchanged_bytes += moved.bytes;
    }
    if (look) look(replicas, session);
  });
  return out;
}

}  // namespace tessera::train
