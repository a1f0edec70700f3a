// A rank's connection to the KeyServer; each call is one round trip. Any thread may call; calls take turns,
// so a rank reports over a second connection: an exchange may wait long.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/process/key_store.hpp"
#include "tessera/base/process/peer_connector.hpp"
#include "tessera/base/process/roll_call.hpp"
#include "tessera/launch/net/channel.hpp"
#include "tessera/launch/net/wire.hpp"

namespace tessera::launch {

class KeyClient final : public KeyStore, public RollCall {
 public:
  // Introduces itself as a connection of `rank`.
  KeyClient(std::unique_ptr<Channel> channel, int rank);
  KeyClient(Descriptor socket, int rank);
  // Says goodbye: a connection that ends without it counts as a lost rank.
  ~KeyClient() override;

  std::vector<std::string> put_and_get(const KeyValues& puts, const std::vector<std::string>& wanted,
                                       std::chrono::milliseconds timeout) override;
  // A connection for each request, in their order, to the client that asks by the same name. Over a Unix
  // socket only. Throws PeerLost when nobody does so in time.
  std::vector<Descriptor> connect(const std::vector<PeerRequest>& requests,
                                  std::chrono::milliseconds timeout);
  std::vector<Attendant> meet(const std::vector<int>& expected, const std::string& brought,
                              bool admits) override;
  std::vector<Attendant> join(const std::vector<int>& together) override;
  // Hands bytes to the server's on_report; returns why the job was aborted, if it was. Throws PeerLost when
  // the server is gone or has not answered in time.
  std::optional<std::string> report(std::string_view bytes, std::chrono::milliseconds timeout);
  // Whether the server has ever said something, if only a refusal.
  bool has_answered();

 private:
  // Both return false when the connection is gone or the time is over.
  bool send_all(std::string_view bytes, double deadline_seconds);
  bool wait_for(short events, double deadline_seconds);
  std::string receive_exactly(std::size_t num_bytes, double deadline_seconds);
  Reply ask(const Request& request, std::chrono::milliseconds patience);
  Reply next_reply(const Request& request, double deadline_seconds);
  std::vector<Attendant> attend(Request request, const std::vector<int>& ranks);

  std::mutex mutex_;
  std::unique_ptr<Channel> channel_;
  bool has_answered_ = false;
};

}  // namespace tessera::launch
