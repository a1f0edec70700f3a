#include "tessera/train/servers/serving.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/chunk_hash.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/passes/holdings.hpp"
#include "tessera/tensor/account.hpp"

namespace tessera::train {

namespace {

struct Dropped {};  // thrown where a worker's ops wait that are not to go on

std::vector<collective::Group> groups_along(const collective::Communicator& communicator,
                                            const program::Tables& tables) {
  std::vector<std::vector<int>> lists;
  for (const auto& set : program::sets_of(tables)) {
    const auto peers = set.peers(communicator.rank());
    lists.emplace_back(peers.begin(), peers.end());
  }
  return collective::make_groups(communicator, lists);
}

}  // namespace

Serving::Serving(const spec::Run& run_of_worker, Session& home,
                 std::span<const std::unique_ptr<collective::Communicator>> communicators)
    : program_(plan::compile(families::step_request(run_of_worker))) {
  const auto& tables = program_.tables;
  for (const auto& communicator : communicators) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->groups = groups_along(*communicator, tables);
  }
  const int rank = communicators.front()->rank();
  make_buckets(run_of_worker, home, rank);
  for (auto& slot : slots_) {
    slot->executor = std::make_unique<engine::Executor>(engine::Parts{
        .tables = tables,
        .sequence = program_.classes.at(tables.class_of_rank.at(static_cast<std::size_t>(rank))),
        .rank = rank,
        .groups = slot->groups,
        .model = model_,
        .buckets = buckets_,
        .optimizers = optimizers_,
        .offload_store = offload_store_,
        .clip_norm = run_of_worker.training.clip_norm,
        .turns = slot.get()});
    slot->thread = std::thread([this, slot = slot.get(), account = tensor::Account::current()] {
      const tensor::AccountScope of_rank(account);
      serve(*slot);
    });
  }
}

// They lie where those of home lie.
void Serving::make_buckets(const spec::Run& run, Session& home, int rank) {
  const auto& tables = program_.tables;
  const auto& sequence = program_.classes.at(tables.class_of_rank.at(static_cast<std::size_t>(rank)));
  const auto held = program::holdings(sequence, tables).buckets;
  buckets_.reserve(tables.buckets.size());  // the optimizers point at them
  for (std::uint32_t item = 0; item < tables.buckets.size(); ++item) {
    if (!held[item]) continue;
    const program::Bucket& table = tables.buckets[item];
    const auto same = std::ranges::find(home.buckets(), table.name,
                                        [](const shard::FlatBucket& bucket) { return bucket.table().name; });
    TESSERA_CHECK(same != home.buckets().end() && same->table().elements == table.elements &&
                      same->slice() == program::slice_held(table, tables, rank),
                  "bucket ", table.name, " is another one where it is saved");
    auto& bucket =
        buckets_.emplace_back(table, run.training.seed, same->slice(), same->device(), same->part());
    bucket.set_shard(same->shard());
    auto& optimizer = optimizers_.emplace_back(run.training, bucket);
    const auto state = home.optimizers()[static_cast<std::size_t>(same - home.buckets().begin())].state();
    optimizer.set_state({state.begin(), state.end()});
  }
}

Serving::~Serving() {
  for (std::size_t worker = 0; worker < slots_.size(); ++worker) drop(static_cast<int>(worker));
}

std::optional<engine::Turns::Update> Serving::Slot::wait(program::Service service) {
  std::unique_lock lock(mutex);
  waits_at = service;
  changed.notify_all();
  changed.wait(lock, [&] { return may_go_on || is_dropped; });
  if (is_dropped) throw Dropped();
  may_go_on = false;
  return std::exchange(update, std::nullopt);
}

void Serving::serve(Slot& slot) {
  std::exception_ptr error;
  try {
    tensor::set_threads(1);
    for (;;) {
      engine::StepInput nothing;
      nothing.micro_batches.resize(static_cast<std::size_t>(program_.tables.num_micro));
      slot.executor->begin(std::move(nothing));
      slot.report = slot.executor->finish();
    }
  } catch (const Dropped&) {
  } catch (const PeerLost&) {
  } catch (...) {  // thread edge
    error = std::current_exception();
  }
  // Other servers that wait in a collective with the lost worker and this rank must not wait for ever.
  slot.executor.reset();
  slot.groups.clear();
  const std::scoped_lock lock(slot.mutex);
  slot.has_ended = true;
  slot.error = error;
  slot.changed.notify_all();
}

bool Serving::run(int worker, program::Service service, std::optional<engine::Turns::Update> update) {
  Slot& of = slot(worker);
  std::unique_lock lock(of.mutex);
  of.changed.wait(lock, [&] { return of.waits_at || of.has_ended; });
  if (of.has_ended) return false;
  TESSERA_CHECK(of.waits_at == service, "worker ", worker, " is served out of turn");
  of.waits_at.reset();
  of.update = update;
  of.may_go_on = true;
  of.changed.notify_all();
  of.changed.wait(lock, [&] { return of.waits_at || of.has_ended; });
  if (of.error) std::rethrow_exception(of.error);
  return !of.has_ended;
}

void Serving::drop(int worker) {
  Slot& of = slot(worker);
  {
    const std::scoped_lock lock(of.mutex);
    of.is_dropped = true;
    of.changed.notify_all();
  }
  if (!of.thread.joinable()) return;
  of.thread.join();
  for (shard::FlatBucket& bucket : buckets_) bucket.end_shard_gradient(false);
}

std::string weight_bits(std::span<shard::FlatBucket> buckets, const collective::Group& servers) {
  std::vector<std::uint64_t> parts;
  for (const shard::FlatBucket& bucket : buckets) {
    const at::Tensor dense = bucket.shard().contiguous();
    parts.push_back(
        checkpoint::hash_of({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}));
  }
  auto mine = static_cast<std::int64_t>(checkpoint::hash_of(std::as_bytes(std::span(parts))));
  std::vector<std::int64_t> all(static_cast<std::size_t>(servers.size()), mine);
  at::Tensor gathered = tensor::view_of(all.data(), {std::ssize(all)}, at::kLong);
  if (servers.size() > 1) servers.all_gather(gathered, tensor::view_of(&mine, {1}, at::kLong));
  return checkpoint::hash_text(checkpoint::hash_of(std::as_bytes(std::span(all))));
}

}  // namespace tessera::train
