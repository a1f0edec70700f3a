#include "tessera/launch/key_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/unix_socket.hpp"
#include "tessera/launch/wire.hpp"

namespace tessera::launch {
namespace {

// A folder with mode 0700; goes with all it holds.
class PrivateFolder {
 public:
  PrivateFolder() {
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    if (error)
      throw UserError(cat("no folder for temporary files (", error.message(),
                          "). Set TMPDIR to a folder that you may write to."));
    path_ = (parent / "tessera-XXXXXX").string();
    if (!mkdtemp(path_.data()))
      throw UserError(cat("cannot make a folder ", path_, ": ", system_reason(),
                          ". Set TMPDIR to a folder that you may write to."));
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Client {
  Descriptor socket;
  std::string in, out;
  std::size_t num_sent = 0;  // of `out`
  bool closing = false;      // once `out` is written
  bool is_member = false;    // it has asked for something and not said goodbye: its end is a loss
  // The exchange it waits for; 0: none.
  std::uint64_t exchange = 0;
  std::vector<std::string> wanted;
  std::size_t num_missing = 0;  // of `wanted`
  double deadline_seconds = 0;
};

}  // namespace

// All state belongs to the thread; abort() only leaves a note and rings the bell.
class KeyServer::Loop {
 public:
  explicit Loop(uid_t user)
      : user_(user),
        path_(folder_.path() + "/keys"),
        door_(listen_at(path_)),
        bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    CHECK(static_cast<bool>(bell_), system_reason());
    thread_ = std::thread([this] { serve(); });
  }

  ~Loop() {
    stopping_ = true;
    ring();
    thread_.join();
  }

  const std::string& path() const { return path_; }

  void abort(const std::string& reason) {
    {
      std::scoped_lock lock(mutex_);
      if (abort_reason_.empty()) abort_reason_ = reason;
    }
    ring();
  }

 private:
  void ring() {
    const std::uint64_t one = 1;
    CHECK(write(bell_.number(), &one, sizeof(one)) == sizeof(one), system_reason());
  }

  void serve() {
    while (!stopping_) {
      std::vector<pollfd> polled{{bell_.number(), POLLIN, 0}, {door_.number(), POLLIN, 0}};
      for (const auto& client : clients_)
        polled.push_back(
            {client.socket.number(), static_cast<short>(POLLIN | (client.out.empty() ? 0 : POLLOUT)), 0});
      if (poll(polled.data(), polled.size(), milliseconds_to_next_deadline()) < 0 && errno != EINTR) return;
      if (polled[0].revents) hear_bell();
      std::size_t i = 2;
      for (auto& client : clients_) {
        const short events = polled[i++].revents;
        if (events & (POLLIN | POLLHUP | POLLERR)) read_from(client);
        if (events & POLLOUT) write_to(client);
      }
      answer_waiting();
      clients_.remove_if([](const Client& client) { return !client.socket; });
      if (polled[1].revents) admit();
    }
  }

  int milliseconds_to_next_deadline() const {
    double soonest = -1;
    for (const auto& client : clients_)
      if (client.exchange && (soonest < 0 || client.deadline_seconds < soonest))
        soonest = client.deadline_seconds;
    if (soonest < 0) return -1;
    return static_cast<int>(std::clamp((soonest - now_seconds()) * 1000 + 1, 0.0, 60000.0));
  }

  void hear_bell() {
    std::uint64_t count;
    while (read(bell_.number(), &count, sizeof(count)) > 0) continue;
    std::scoped_lock lock(mutex_);
    if (!abort_reason_.empty() && lost_.empty()) lost_ = abort_reason_;
  }

  void admit() {
    Descriptor socket(accept4(door_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // A rank that can't be admitted ends the job; to look again would be to look all the time.
    if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      if (lost_.empty()) lost_ = cat("the key server cannot admit another rank: ", system_reason());
      door_.reset();
      return answer_waiting();
    }
    if (!socket) return;  // it went away again
    const uid_t user = peer_user(socket);
    clients_.emplace_back();
    clients_.back().socket = std::move(socket);
    if (user != user_)
      refuse(clients_.back(), cat("the key server serves user ", user_, ", not user ", user));
  }

  void read_from(Client& client) {
    char buffer[65536];
    while (client.socket) {
      const ssize_t count = recv(client.socket.number(), buffer, sizeof(buffer), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (count <= 0) return drop(client);
      if (client.closing) continue;  // refused: what else it says is not heard
      client.in.append(buffer, static_cast<std::size_t>(count));
      take_messages(client);
    }
  }

  void take_messages(Client& client) {
    while (!client.closing && client.in.size() >= kLengthBytes) {
      const std::uint32_t length = body_bytes(client.in);
      if (length > kMaxBodyBytes)
        return refuse(client,
                      cat("a message of ", length, " bytes; at most ", kMaxBodyBytes, " are allowed"));
      if (client.in.size() < kLengthBytes + length) return;
      const auto request = parse_request(std::string_view(client.in).substr(kLengthBytes, length));
      if (!request) return refuse(client, "a malformed message");
      if (client.exchange) return refuse(client, "a message while an exchange is under way");
      client.in.erase(0, kLengthBytes + length);
      answer(client, *request);
    }
  }

  void answer(Client& client, const Request& request) {
    client.is_member = request.kind != Request::Kind::goodbye;
    if (!client.is_member) return;
    if (!lost_.empty()) return reply(client, {Reply::Kind::lost, {lost_}});
    switch (request.kind) {
      case Request::Kind::exchange:
        for (const auto& [key, value] : request.puts) put(key, value);
        client.exchange = ++num_exchanges_;
        client.wanted = request.keys;
        client.num_missing = 0;
        for (const auto& key : client.wanted) {
          if (values_.contains(key)) continue;
          ++client.num_missing;
          awaited_[key].push_back(client.exchange);
        }
        waiting_[client.exchange] = &client;
        client.deadline_seconds = now_seconds() + static_cast<double>(request.timeout_milliseconds) / 1000;
        return;
      case Request::Kind::goodbye:
        return;
    }
  }

  void put(const std::string& key, const std::string& value) {
    values_[key] = value;
    const auto found = awaited_.find(key);
    if (found == awaited_.end()) return;
    for (const std::uint64_t exchange : found->second)
      if (const auto waiter = waiting_.find(exchange); waiter != waiting_.end())
        --waiter->second->num_missing;
    awaited_.erase(found);
  }

  void stop_waiting(Client& client) {
    waiting_.erase(client.exchange);
    client.exchange = 0;
  }

  void answer_waiting() {
    const double now = now_seconds();
    for (auto& client : clients_) {
      if (!client.exchange) continue;
      Reply answer;
      if (client.num_missing == 0) {
        for (const auto& key : client.wanted) answer.texts.push_back(values_.at(key));
      } else if (!lost_.empty()) {
        answer = {Reply::Kind::lost, {lost_}};
      } else if (now >= client.deadline_seconds) {
        answer.kind = Reply::Kind::missing;
        for (const auto& key : client.wanted)
          if (!values_.contains(key)) answer.texts.push_back(key);
      } else {
        continue;
      }
      stop_waiting(client);
      reply(client, answer);
    }
  }

  void reply(Client& client, const Reply& reply) {
    try {
      client.out += encode(reply);
    } catch (const UserError& error) {  // the values asked for are too many for one message
      return refuse(client, error.what());
    }
    write_to(client);
  }

  void refuse(Client& client, const std::string& words) {
    stop_waiting(client);
    client.closing = true;
    client.is_member = false;
    client.in.clear();
    client.out += encode(Reply{Reply::Kind::refused, {words}});
    write_to(client);
  }

  void write_to(Client& client) {
    while (client.socket && client.num_sent < client.out.size()) {
      const ssize_t count = send(client.socket.number(), client.out.data() + client.num_sent,
                                 client.out.size() - client.num_sent, MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count < 0) return drop(client);
      client.num_sent += static_cast<std::size_t>(count);
    }
    client.out.clear();
    client.num_sent = 0;
    // Half a close: the words still arrive even when the client has more to say.
    if (client.closing && client.socket) shutdown(client.socket.number(), SHUT_WR);
  }

  void drop(Client& client) {
    client.socket.reset();
    stop_waiting(client);
    if (client.is_member && lost_.empty()) lost_ = "a rank's connection to the key server broke off";
  }

  const uid_t user_;
  const PrivateFolder folder_;
  const std::string path_;
  Descriptor door_, bell_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::string abort_reason_;  // guarded by mutex_
  std::list<Client> clients_;
  std::unordered_map<std::string, std::string> values_;
  // Which exchanges wait for a key, and who waits in an exchange: a key that comes finds its waiters, and they only
  // count. Exchanges that have ended stay in the first and are missing in the second.
  std::unordered_map<std::string, std::vector<std::uint64_t>> awaited_;
  std::unordered_map<std::uint64_t, Client*> waiting_;
  std::uint64_t num_exchanges_ = 0;
  std::string lost_;  // why waiting is in vain, once it is
  std::thread thread_;
};

KeyServer::KeyServer(uid_t user) : loop_(std::make_unique<Loop>(user)) {}
KeyServer::~KeyServer() = default;
const std::string& KeyServer::path() const { return loop_->path(); }
void KeyServer::abort(const std::string& reason) { loop_->abort(reason); }

}  // namespace tessera::launch
