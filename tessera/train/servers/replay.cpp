#include "tessera/train/servers/replay.hpp"

#include <map>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/part.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/servers/serving.hpp"

namespace tessera::train {

namespace {

using collective::Communicator;
using collective::PartCommunicator;
using Weights = std::vector<tensor::Tensor>;  // by bucket of a server

void check_fits(const spec::Run& run, const UpdateHistory& history) {
  const std::string again = "Give the run.toml of the folder that the log is from.";
  if (run.layout.updates == spec::Updates::synchronous)
    throw UserError(cat("the run file has no workers that update by themselves (layout.updates). ", again));
  if (history.workers != run.layout.dp())
    throw UserError(cat("the log is of ", history.workers, " workers, and the run file has ", run.layout.dp(),
                        ". ", again));
  if (history.first != 1)
    throw UserError(cat("the log begins with update ", history.first,
                        ": the run went on from a checkpoint of another folder. A replay begins with initial "
                        "weights and needs all updates."));
  if (history.bits.empty())
    throw UserError(
        "the log has no last line with the bits of the weights: the run goes on, or was ended before it "
        "could write it. Let it go on and end, and replay it then.");
}

// A server of the replay: it gives weights of earlier versions.
class Past {
 public:
  Past(Serving& serving, const UpdateHistory& history) : serving_(serving) {
    for (const Push& push : history.pushes) last_use_[push.version] = push.number;
  }

  // Of the version after so many pushes; `pushes` are behind.
  void pull(const Push& push) {
    keep(push.number - 1);
    Weights now = weights();
    set(kept_.at(push.version));
    if (!serving_.run(0, program::Service::pull)) throw PeerLost("the worker of the replay is gone");
    set(now);
    if (last_use_.at(push.version) == push.number) kept_.erase(push.version);
  }

 private:
  Weights weights() {
    Weights out;
    for (shard::FlatBucket& bucket : serving_.buckets()) out.push_back(bucket.shard());
    return out;
  }
  void set(const Weights& weights) {
    for (std::size_t i = 0; i < weights.size(); ++i) serving_.buckets()[i].set_shard(weights[i]);
  }
  // What is there now is the version after so many pushes.
  void keep(std::int64_t version) {
    if (!last_use_.contains(version)) return;
    Weights copies = weights();
    for (tensor::Tensor& copy : copies) copy = copy.clone();
    kept_.emplace(version, std::move(copies));
  }

  Serving& serving_;
  std::map<std::int64_t, std::int64_t> last_use_;  // of a version: the last push that was computed with it
  std::map<std::int64_t, Weights> kept_;
};

void work(const spec::Run& run, const UpdateHistory& history, const Communicator& communicator) {
  Source source = source_of_steps(corpus_source(run.data, run.model), run, [&history](std::int64_t i) {
    return history.pushes.at(static_cast<std::size_t>(i)).of;
  });
  Session session(session_plan(run_of_worker(run)), communicator, std::move(source));
  for (std::size_t i = 0; i < history.pushes.size(); ++i) session.step();
}

void serve(const spec::Run& run, const UpdateHistory& history, const Communicator& communicator,
           const Team& team, Replayed& out) {
  const PartCommunicator servers(communicator, team.server_ranks());
  const auto group = collective::make_groups(communicator, {team.server_ranks()}).front();
  Session home(session_plan(run_of_servers(run)), servers, [](auto, auto, auto, auto) {});
  std::vector<std::unique_ptr<Communicator>> of_worker;
  of_worker.push_back(std::make_unique<PartCommunicator>(communicator, team.ranks_with(0)));
  Serving serving(run_of_worker(run), home, of_worker);
  Past past(serving, history);
  const bool tells = servers.rank() == 0;
  std::int64_t taken = 0;
  for (const Push& push : history.pushes) {
    past.pull(push);
    const engine::Turns::Update update{.learning_rate = rate_of_push(run, push.number), .count = taken + 1};
    if (!serving.run(0, program::Service::push) || !serving.run(0, program::Service::update, update))
      throw PeerLost("the worker of the replay is gone");
    const engine::StepReport& report = serving.report(0);
    taken += report.taken ? 1 : 0;
    const bool is_other = report.loss != push.loss || report.gradient_norm != push.gradient_norm;
    if (tells && is_other && push.taken && !out.first_other) out.first_other = push.number;
  }
  const std::string bits = weight_bits(serving.buckets(), group);
  if (tells) out.bits = bits;
}

}  // namespace

Replayed replay(const spec::Run& run, const UpdateHistory& history) {
  check_fits(run, history);
  Replayed out{
      .pushes = std::ssize(history.pushes), .workers = history.workers, .expected_bits = history.bits};
  for (const Push& push : history.pushes)
    out.mean_versions +=
        static_cast<double>(push.number - 1 - push.version) / static_cast<double>(history.pushes.size());
  out.most_ahead = history.most_ahead;
  if (run.layout.updates == spec::Updates::bounded) out.allowed_ahead = run.layout.staleness;
  spec::Layout one = run.layout;
  one.dp_shard = 1;
  const Team team(one);
  collective::run_ranks(static_cast<int>(one.ranks()), [&](const Communicator& communicator) {
    if (team.worker_of(communicator.rank()))
      work(run, history, communicator);
    else
      serve(run, history, communicator, team, out);
  });
  return out;
}

std::string to_text(const Replayed& r) {
  return cat(
      r.pushes, " updates of ", r.workers, r.workers == 1 ? " worker" : " workers",
      ", one after the other in one process: weights ", r.bits,
      r.bits == r.expected_bits ? ", bit for bit those of the run\n"
                                : cat(", and the run had ", r.expected_bits, ": NOT EQUAL\n"),
      r.first_other ? cat("the first update with another loss or gradient norm: ", *r.first_other, "\n") : "",
      "a gradient was applied ", fixed(r.mean_versions, 2),
      " updates after the one whose weights it was computed with, on average; no worker was more than ",
      r.most_ahead, r.most_ahead == 1 ? " update" : " updates", " ahead of the slowest\n");
}

}  // namespace tessera::train
