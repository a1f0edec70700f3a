#include "tessera/cli/joined.hpp"

#include <chrono>

#include "tessera/base/text.hpp"
#include "tessera/cli/connect.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/launch/join_store.hpp"
#include "tessera/launch/pin.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::cli {

std::optional<launch::Membership> joined_membership() {
  const auto environment = launch::process_environment();
  const auto store = environment.find("TESSERA_STORE");
  if (store != environment.end() && store->second.starts_with("fd:")) return std::nullopt;
  return launch::membership(environment);
}

void on_joined_rank(const spec::Run& run, const launch::Membership& membership,
                    const std::function<void(const collective::Communicator&)>& body) {
  // Before any thread is started: they inherit it.
  if (run.cluster.pin && !membership.is_bound)
    launch::pin_threads(membership.local_rank, membership.local_size);
  tensor::set_threads(1);
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(run.cluster.timeout_seconds * 1000));
  launch::JoinedStore store(
      membership,
      launch::store_options(launch::process_environment(), run.cluster.store, run.cluster.key_file, timeout));
  body(*connect(run, store.keys(),
                {.rank = membership.rank,
                 .size = membership.world_size,
                 .local_rank = membership.local_rank,
                 .prefix = cat(membership.job, "/", membership.generation),
                 .address = store.host()}));
}

}  // namespace tessera::cli
