#include "tessera/launch/store/key_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/net/poll_time.hpp"
#include "tessera/launch/net/wire.hpp"
#include "tessera/launch/store/key_table.hpp"
#include "tessera/launch/store/meeting.hpp"
#include "tessera/launch/store/served_client.hpp"

namespace tessera::launch {
namespace {

// Nobody is served less because others talk or come in much.
constexpr int kReceivesPerRound = 16;
constexpr int kVisitorsPerRound = 16;

}  // namespace

// All state belongs to the thread; others only leave a note and ring the bell.
class KeyServer::Loop {
 public:
  Loop(KeyServerCallbacks callbacks, StrangerLimits limits)
      : callbacks_(std::move(callbacks)), limits_(limits), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    TESSERA_CHECK(static_cast<bool>(bell_), system_reason());
    thread_ = std::thread([this] { serve(); });
  }

  ~Loop() {
    stopping_ = true;
    ring();
    thread_.join();
  }

  Descriptor connect(Arrival arrival) {
    auto [ours, theirs] = connected_pair();
    {
      std::scoped_lock lock(mutex_);
      notes_.arrivals.emplace_back(std::move(ours), arrival);
    }
    ring();
    return std::move(theirs);
  }

  void open(std::unique_ptr<Listener> listener, const std::vector<int>& awaited) {
    {
      std::scoped_lock lock(mutex_);
      notes_.listener = std::move(listener);
      news_.awaited = awaited;
    }
    ring();
  }

  std::vector<int> wait_until_come(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return news_.awaited.empty() || !news_.lost.empty(); });
    if (!news_.lost.empty()) throw PeerLost(news_.lost);
    return news_.awaited;
  }

  void abort(const std::string& reason) {
    {
      std::scoped_lock lock(mutex_);
      if (notes_.abort_reason.empty()) notes_.abort_reason = reason;
    }
    ring();
  }

  void wait_until_left(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return news_.awaited.empty() && news_.num_guests == 0; });
  }

 private:
  struct Notes {
    std::string abort_reason;
    std::vector<std::pair<Descriptor, Arrival>> arrivals;
    std::unique_ptr<Listener> listener;
  };
  // What others wait to hear of.
  struct News {
    std::vector<int> awaited;
    std::ptrdiff_t num_guests = 0;
    std::string lost;
  };

  void ring() {
    const std::uint64_t one = 1;
    TESSERA_CHECK(write(bell_.number(), &one, sizeof(one)) == sizeof(one), system_reason());
  }

  void serve() {
    while (!stopping_) {
      std::vector<pollfd> polled{{bell_.number(), POLLIN, 0},
                                 {listener_ ? listener_->descriptor() : -1, POLLIN, 0}};
      for (const auto& client : clients_)
        polled.push_back({client.channel->descriptor(), client.events(), 0});
      if (poll(polled.data(), polled.size(), milliseconds_to_next_deadline()) < 0 && errno != EINTR) return;
      if (polled[0].revents) hear_bell();
      auto client = clients_.begin();
      for (std::size_t i = 2; i < polled.size(); ++i, ++client) attend(*client, polled[i].revents);
      answer_waiting();
      dismiss_strangers();
      if (polled[1].revents && listener_) admit();
      clients_.remove_if([](const ServedClient& client) { return !client.channel; });
      tell_news();
    }
  }

  void tell_news() {
    std::scoped_lock lock(mutex_);
    news_.num_guests = std::ranges::count_if(clients_, &ServedClient::is_guest);
    news_.lost = lost_;
    if (!notes_.listener) news_.awaited.assign(awaited_.begin(), awaited_.end());
    changed_.notify_all();
  }

  void attend(ServedClient& client, short events) {
    // With nothing to write, POLLOUT was asked for by a handshake.
    if (events & (POLLIN | POLLHUP | POLLERR) || (events && client.out.empty())) read_from(client);
    if (events & POLLOUT) write_to(client);
  }

  int milliseconds_to_next_deadline() const {
    double soonest = -1;
    const auto look_at = [&](double seconds) {
      if (soonest < 0 || seconds < soonest) soonest = seconds;
    };
    for (const auto& client : clients_) {
      if (client.waits()) look_at(client.deadline_seconds);
      if (client.stranger_until_seconds > 0) look_at(client.stranger_until_seconds);
    }
    if (soonest < 0) return -1;
    return poll_milliseconds(soonest);
  }

  void hear_bell() {
    std::uint64_t count;
    while (read(bell_.number(), &count, sizeof(count)) > 0) continue;
    std::scoped_lock lock(mutex_);
    if (!notes_.abort_reason.empty() && lost_.empty()) lost_ = notes_.abort_reason;
    for (auto& [socket, arrival] : notes_.arrivals) {
      clients_.push_back({.channel = plain_channel(std::move(socket))});
      clients_.back().awaited = arrival.rank;
      clients_.back().is_new = arrival.is_newcomer;
    }
    notes_.arrivals.clear();
    if (!notes_.listener) return;
    listener_ = std::move(notes_.listener);
    awaited_ = {news_.awaited.begin(), news_.awaited.end()};
    if (awaited_.empty()) listener_.reset();
  }

  void admit() {
    for (int i = 0; i < kVisitorsPerRound; ++i) {
      Descriptor socket(accept4(listener_->descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        // A rank that can't be admitted ends the job; to look again would be to look all the time.
        if (!dismiss_oldest_stranger()) {
          if (lost_.empty()) lost_ = cat("the key server cannot admit another rank: ", system_reason());
          listener_.reset();
          answer_waiting();
        }
        return;
      }
      if (!socket) return;  // nobody is left, or it went away again
      if (num_strangers() >= limits_.most) dismiss_oldest_stranger();
      Connection connection = listener_->receive(std::move(socket));
      clients_.push_back({.channel = std::move(connection.channel)});
      clients_.back().stranger_until_seconds = now_seconds() + limits_.seconds;
      if (!connection.refusal.empty()) refuse(clients_.back(), connection.refusal);
    }
  }

  static bool is_stranger(const ServedClient& client) {
    return client.channel && client.stranger_until_seconds > 0;
  }

  std::size_t num_strangers() const {
    return static_cast<std::size_t>(std::ranges::count_if(clients_, is_stranger));
  }

  bool dismiss_oldest_stranger() {
    const auto oldest = std::ranges::find_if(clients_, is_stranger);  // clients are in the order they came
    if (oldest == clients_.end()) return false;
    clients_.erase(oldest);
    return true;
  }

  void dismiss_strangers() {
    const double now = now_seconds();
    for (auto& client : clients_)
      if (is_stranger(client) && now >= client.stranger_until_seconds) drop(client);
  }

  void read_from(ServedClient& client) {
    char buffer[65536];
    for (int i = 0; i < kReceivesPerRound && client.channel; ++i) {
      const auto count = client.channel->receive(buffer);
      if (!count) return drop(client);
      if (*count == 0) return;
      if (client.closing) continue;  // refused: what else it says is not heard
      client.in.append(buffer, *count);
      take_messages(client);
      if (is_stranger(client) && client.in.size() > limits_.bytes)
        return refuse(client, "too much was said before a hello");
    }
  }

  void take_messages(ServedClient& client) {
    while (!client.closing && client.in.size() >= kLengthBytes) {
      const std::uint32_t length = body_bytes(client.in);
      const std::uint32_t most = client.rank < 0 ? static_cast<std::uint32_t>(limits_.bytes) : kMaxBodyBytes;
      if (length > most)
        return refuse(client, cat("a message of ", length, " bytes; at most ", most, " are allowed"));
      if (client.in.size() < kLengthBytes + length) return;
      const auto request = parse_request(std::string_view(client.in).substr(kLengthBytes, length));
      if (!request) return refuse(client, "a malformed message");
      if (client.waits()) return refuse(client, "a message while an exchange is under way");
      client.in.erase(0, kLengthBytes + length);
      answer(client, *request);
    }
  }

  void answer(ServedClient& client, const Request& request) {
    const bool is_hello = request.kind == Request::Kind::hello;
    if (is_hello != (client.rank < 0)) return refuse(client, "a hello must come first, and once");
    switch (request.kind) {
      case Request::Kind::hello:
        return introduce(client, request.rank);
      case Request::Kind::report:
        if (callbacks_.on_report) callbacks_.on_report(client.rank, request.report);
        return reply(client, lost_.empty() ? Reply{} : Reply{Reply::Kind::lost, {lost_}});
      case Request::Kind::exchange:
        return begin_exchange(client, request);
      case Request::Kind::connect:
        return begin_connecting(client, request);
      case Request::Kind::meet:
      case Request::Kind::admit:
      case Request::Kind::join:
        if ((request.kind == Request::Kind::join) != client.is_new)
          return refuse(client, "newcomers join a meeting, and nobody else does");
        client.meeting = request;
        client.deadline_seconds = std::numeric_limits<double>::infinity();
        return;
      case Request::Kind::goodbye:
        await_again(client);
        note_end(client.rank);
        client.awaited = -1;
        client.rank = -1;
        client.closing = true;
        return;
    }
  }

  void introduce(ServedClient& client, int rank) {
    if (rank < 0) return refuse(client, cat("there is no rank ", rank));
    if (is_stranger(client)) {
      const auto place = awaited_.find(rank);
      if (place == awaited_.end())
        return refuse(client, cat("no connection of rank ", rank, " is awaited. Was it started twice?"));
      awaited_.erase(place);
      client.stranger_until_seconds = 0;
      client.is_guest = true;
      if (awaited_.empty()) listener_.reset();
      tell_news();  // before it is answered: whoever has the answer must not be told of an older state
    }
    client.rank = client.awaited = rank;
  }

  // It may have given up on an answer that came late, and come in anew.
  void await_again(const ServedClient& client) {
    if (listener_ && client.is_guest && client.rank >= 0) awaited_.insert(client.rank);
  }

  void begin_exchange(ServedClient& client, const Request& request) {
    if (!lost_.empty()) return reply(client, {Reply::Kind::lost, {lost_}});
    client.exchange = table_.begin(request.puts, request.keys);
    client.deadline_seconds = now_seconds() + static_cast<double>(request.timeout_milliseconds) / 1000;
  }

  void begin_connecting(ServedClient& client, const Request& request) {
    if (!client.channel->carries_descriptors())
      return refuse(client, "connections are handed over on one machine only");
    if (!lost_.empty()) return reply(client, {Reply::Kind::lost, {lost_}});
    client.deadline_seconds = now_seconds() + static_cast<double>(request.timeout_milliseconds) / 1000;
    const std::map<std::string, std::string> peers(request.puts.begin(), request.puts.end());
    for (const auto& name : request.keys) {
      if (!client.channel) return;  // it left while it was told of the last
      const auto other = connecting_.find(name);
      if (other == connecting_.end()) {
        connecting_[name] = &client;
        const auto peer = peers.find(name);
        client.unconnected[name] = peer == peers.end() ? -1 : std::atoi(peer->second.c_str());
      } else if (other->second == &client) {
        return refuse(client, cat("the connection ", name, " is asked for twice"));
      } else if (!connect_both(client, *other->second, name)) {
        return;
      }
    }
  }

  // False when the system has no more descriptors: then the job is lost.
  bool connect_both(ServedClient& client, ServedClient& other, const std::string& name) {
    connecting_.erase(name);
    other.unconnected.erase(name);
    try {
      auto [one, another] = connected_pair();
      hand_over(client, name, std::move(one));
      hand_over(other, name, std::move(another));
      return true;
    } catch (const UserError& error) {
      if (lost_.empty()) lost_ = error.what();
      for (ServedClient* waiting : {&client, &other}) {
        stop_waiting(*waiting);
        reply(*waiting, {Reply::Kind::lost, {lost_}});
      }
      return false;
    }
  }

  void hand_over(ServedClient& client, const std::string& name, Descriptor end) {
    client.enclosed.emplace_back(client.out.size(), std::move(end));
    reply(client, {Reply::Kind::connected, {name}});
  }

  void stop_waiting(ServedClient& client) {
    table_.end(client.exchange);
    client.exchange = 0;
    for (const auto& [name, peer] : client.unconnected) connecting_.erase(name);
    client.unconnected.clear();
    client.meeting.reset();
  }

  // Whoever it is connecting to: the first of them who is gone, or waits in a meeting instead.
  std::optional<int> lost_peer(const ServedClient& client) const {
    for (const auto& [name, peer] : client.unconnected) {
      const bool meets = std::ranges::any_of(clients_, [rank = peer](const ServedClient& other) {
        return other.rank == rank && other.meeting && !other.is_new;
      });
      // Newcomers wait for each other: the others know nothing of them yet.
      if (meets || (gone_.contains(peer) && !client.is_new)) return peer;
    }
    return std::nullopt;
  }

  void hold_meeting() {
    std::vector<ServedClient*> there;
    std::vector<Participant> participants;
    for (auto& client : clients_)
      if (client.channel && client.rank >= 0) {
        there.push_back(&client);
        participants.push_back({client.rank, client.is_new, client.meeting ? &*client.meeting : nullptr});
      }
    const MeetingAnswer answer = answer_of(participants, gone_);
    for (const std::size_t place : answer.to) {
      there[place]->meeting.reset();
      gone_.erase(there[place]->rank);
      there[place]->is_new = false;
    }
    for (const std::size_t place : answer.to) reply(*there[place], to_reply(answer.attendants));
  }

  void answer_waiting() {
    const double now = now_seconds();
    const auto meets = [](const ServedClient& client) { return client.meeting.has_value(); };
    if (lost_.empty() && std::ranges::any_of(clients_, meets)) hold_meeting();
    for (auto& client : clients_) {
      if (!client.waits()) continue;
      Reply answer;
      if (client.exchange && table_.is_complete(client.exchange))
        answer.texts = table_.values(client.exchange);
      else if (!lost_.empty())
        answer = {Reply::Kind::lost, {lost_}};
      else if (const auto peer = lost_peer(client))
        answer = {Reply::Kind::lost, {cat("rank ", *peer, " has left")}};
      else if (now >= client.deadline_seconds)
        answer = {Reply::Kind::missing,
                  client.exchange ? table_.missing(client.exchange) : names_of(client.unconnected)};
      else
        continue;
      stop_waiting(client);
      reply(client, answer);
    }
  }

  static std::vector<std::string> names_of(const std::map<std::string, int>& unconnected) {
    std::vector<std::string> out;
    for (const auto& [name, peer] : unconnected) out.push_back(name);
    return out;
  }

  void reply(ServedClient& client, const Reply& reply) {
    try {
      client.out += encode(reply);
    } catch (const UserError& error) {  // the values asked for are too many for one message
      return refuse(client, error.what());
    }
    write_to(client);
  }

  void refuse(ServedClient& client, const std::string& words) {
    stop_waiting(client);
    await_again(client);
    client.closing = true;
    client.rank = -1;
    client.in.clear();
    client.out += encode(Reply{Reply::Kind::refused, {words}});
    write_to(client);
  }

  void write_to(ServedClient& client) {
    if (client.channel && !client.send()) drop(client);
  }

  void drop(ServedClient& client) {
    client.channel.reset();
    stop_waiting(client);
    await_again(client);
    const bool is_missed = !note_end(client.awaited);
    if (client.rank < 0) return;
    if (lost_.empty() && is_missed) lost_ = cat("rank ", client.rank, "'s connection to the store broke off");
    if (callbacks_.on_lost) callbacks_.on_lost(client.rank);
    client.rank = -1;
  }

  // Whether the others do without it.
  bool note_end(int rank) {
    const bool may = rank >= 0 && callbacks_.may_be_lost && callbacks_.may_be_lost(rank);
    if (may) gone_.insert(rank);
    return may;
  }

  const KeyServerCallbacks callbacks_;
  const StrangerLimits limits_;
  Descriptor bell_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  Notes notes_;  // guarded by mutex_
  News news_;    // guarded by mutex_
  std::condition_variable changed_;
  std::unique_ptr<Listener> listener_;
  std::multiset<int> awaited_;  // through the door; empty without one
  std::list<ServedClient> clients_;
  KeyTable table_;
  std::unordered_map<std::string, ServedClient*>
      connecting_;      // by name: who asked first, and waits for the other
  std::set<int> gone_;  // of those that may be lost
  std::string lost_;    // why waiting is in vain, once it is
  std::thread thread_;
};

KeyServer::KeyServer(KeyServerCallbacks callbacks, StrangerLimits limits)
    : loop_(std::make_unique<Loop>(std::move(callbacks), limits)) {}
KeyServer::~KeyServer() = default;
Descriptor KeyServer::connect(Arrival arrival) { return loop_->connect(arrival); }
void KeyServer::open(std::unique_ptr<Listener> listener, const std::vector<int>& awaited) {
  loop_->open(std::move(listener), awaited);
}
std::vector<int> KeyServer::wait_until_come(std::chrono::milliseconds timeout) {
  return loop_->wait_until_come(timeout);
}
void KeyServer::abort(const std::string& reason) { loop_->abort(reason); }
void KeyServer::wait_until_left(std::chrono::milliseconds timeout) { loop_->wait_until_left(timeout); }

}  // namespace tessera::launch
