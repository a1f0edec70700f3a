#include "tessera/launch/store/join_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/launch/net/tcp_socket.hpp"
#include "tessera/launch/net/tls.hpp"
#include "tessera/launch/store/open_files.hpp"
#include "tessera/launch/store/private_folder.hpp"

namespace tessera::launch {
namespace {

constexpr int kConnectionsPerRank = 2;  // keys and reports

// Its connections of all ranks, as many again for the links of its own to them, strangers at the door, and
// its own files.
std::size_t open_files_of_rank_0(int num_ranks) {
  return 2 * kConnectionsPerRank * static_cast<std::size_t>(num_ranks) + StrangerLimits().most + 64;
}

std::string full_name(const Membership& m) { return cat(m.job, "/", m.generation); }

std::string socket_path(const Membership& m) {
  char name[17];
  std::snprintf(name, sizeof(name), "%016llx", static_cast<unsigned long long>(stream_of(full_name(m))));
  return private_folder() / name;
}

std::string place_of(const Membership& m, const StoreOptions& options) {
  return options.address.empty() ? socket_path(m) : options.address;
}

std::shared_ptr<const JobKey> key_for(const Membership& m, const StoreOptions& options) {
  const std::string job = full_name(m);
  if (!options.key_descriptor.empty()) {
    const Descriptor in = inherited_descriptor(options.key_descriptor, "TESSERA_KEY_FD");
    return std::make_shared<JobKey>(Secret::from_descriptor(in, "TESSERA_KEY_FD").bytes(), job);
  }
  if (!options.key_file.empty())
    return std::make_shared<JobKey>(Secret::from_file(options.key_file).bytes(), job);
  throw UserError(cat("the store at ", options.address,
                      " needs a key, so that no stranger can join the job. Make one by ", kKeyRecipe,
                      ", bring it to every host, and name it by cluster.key_file or TESSERA_KEY_FILE."));
}

void check_hosts(const Membership& m, const StoreOptions& options) {
  if (m.num_hosts == 1 || !options.address.empty()) return;
  throw UserError(
      cat(m.started_by,
          " has started ranks on several hosts, but nobody said where they meet. Set cluster.store "
          "(or TESSERA_STORE) to an address of rank 0's host and a free port, e.g. "
          "cluster.store=node1:29400, and cluster.key_file (or TESSERA_KEY_FILE) to a key that "
          "every host has: ",
          kKeyRecipe));
}

void check_reachable(const Membership& m, const StoreOptions& options, const std::string& host) {
  if (m.num_hosts == 1 || !is_loopback(host)) return;
  throw UserError(
      cat("the store's address ", options.address, " is ", host,
          " on rank 0's host, which other hosts can't reach (many systems map a host's own name "
          "to 127.0.1.1 in /etc/hosts). Name the address of rank 0's host in the network that all "
          "hosts share, as ip -brief address shows it."));
}

// Rank 0 waits here until all others are connected.
void wait_for_all(KeyServer& server, const Membership& m, const std::string& place,
                  std::chrono::milliseconds timeout) {
  const std::vector<int> awaited = server.wait_until_come(timeout);
  if (awaited.empty()) return;
  std::vector<std::string> missing;
  for (const int rank : std::set(awaited.begin(), awaited.end())) missing.push_back(cat(rank));
  throw PeerLost(cat(missing.size() == 1 ? "rank " : "ranks ", join(missing, ", "), " of ", m.world_size,
                     " did not come to ", place, " within ", std::chrono::duration<double>(timeout).count(),
                     " s. Were all started, and may their hosts connect to this one? cluster.timeout_seconds "
                     "sets how long is waited."));
}

// Tries until it works. `attempt` returns nothing when it should be tried again, with errno set.
std::unique_ptr<KeyClient> come_in(const std::string& place, double deadline_seconds,
                                   const std::function<std::unique_ptr<KeyClient>()>& attempt) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  while (true) {
    auto client = attempt();
    std::string reason = client ? "" : system_reason();
    try {
      if (client) client->put_and_get({}, {}, kPause);  // the server has heard the hello
      if (client) return client;
    } catch (const PeerLost& error) {
      if (client->has_answered()) throw;
      reason = error.what();  // it had to make room; there will be some again
      client.reset();
    }
    if (now_seconds() >= deadline_seconds)
      throw PeerLost(cat("rank 0 could not be reached at ", place, ": ", reason,
                         ". Was it started, and may this host connect to it?"));
    std::this_thread::sleep_for(kPause);
  }
}

std::unique_ptr<KeyClient> come_in_here(const std::string& path, int rank) {
  Descriptor socket = connect_to(path);
  if (!socket) return nullptr;
  if (const uid_t user = peer_user(socket); user != geteuid())
    throw UserError(cat("the key server at ", path, " belongs to user ", user, ", not to you"));
  return std::make_unique<KeyClient>(std::move(socket), rank);
}

}  // namespace

StoreOptions store_options(const Environment& environment, const std::string& address,
                           const std::string& key_file, std::chrono::milliseconds timeout) {
  const auto either = [&](const char* name, const std::string& otherwise) {
    const auto found = environment.find(name);
    return found == environment.end() || found->second.empty() ? otherwise : found->second;
  };
  return {either("TESSERA_STORE", address), either("TESSERA_KEY_FILE", key_file),
          either("TESSERA_KEY_FD", ""), timeout};
}

JoinedStore::JoinedStore(const Membership& m, const StoreOptions& options, KeyServerCallbacks callbacks)
    : timeout_(options.timeout) {
  check_hosts(m, options);
  const bool is_remote = !options.address.empty();
  const auto address = is_remote ? parse_address(options.address, "the store's address") : TcpAddress();
  const auto key = is_remote ? key_for(m, options) : nullptr;
  std::string host;  // address of this host that the other ranks reach
  const auto connect_peers = [&] {
    peers_ = is_remote ? tcp_peers(*keys_, m.rank, host) : local_peers(*keys_);
  };
  if (m.rank == 0) {
    reserve_open_files(m.world_size, open_files_of_rank_0(m.world_size), "rank 0");
    std::unique_ptr<Listener> listener;
    if (is_remote) {
      Descriptor listening = listen_on(address);
      host = own_host(listening);
      check_reachable(m, options, host);
      listener = tls_listener(std::move(listening), key);
    } else {
      listener = unix_listener(socket_path(m), geteuid());
    }
    server_.emplace(std::move(callbacks));
    std::vector<int> awaited;
    for (int i = kConnectionsPerRank; i < kConnectionsPerRank * m.world_size; ++i)
      awaited.push_back(i / kConnectionsPerRank);
    server_->open(std::move(listener), awaited);
    wait_for_all(*server_, m, place_of(m, options), timeout_);
    keys_ = std::make_unique<KeyClient>(server_->connect(), 0);
    reports_ = std::make_unique<KeyClient>(server_->connect(), 0);
    connect_peers();
    return;
  }
  const double deadline_seconds = now_seconds() + std::chrono::duration<double>(timeout_).count();
  const auto attempt = [&]() -> std::unique_ptr<KeyClient> {
    if (!is_remote) return come_in_here(socket_path(m), m.rank);
    Descriptor socket = connect_by(address, deadline_seconds);
    if (!socket) return nullptr;
    host = own_host(socket);
    auto channel = tls_channel(std::move(socket), key, deadline_seconds);
    return channel ? std::make_unique<KeyClient>(std::move(channel), m.rank) : nullptr;
  };
  for (auto* client : {&keys_, &reports_}) *client = come_in(place_of(m, options), deadline_seconds, attempt);
  connect_peers();
}

void JoinedStore::wait_for_others() {
  if (server_) server_->wait_until_left(timeout_);
}

}  // namespace tessera::launch
