#include "tessera/launch/store/served_client.hpp"

#include <string_view>

namespace tessera::launch {

short ServedClient::events() const {
  if (out.empty()) return channel->events_to_receive();
  const short to_send = channel->events_to_send();
  return closing ? static_cast<short>(channel->events_to_receive() | to_send) : to_send;
}

bool ServedClient::send() {
  if (out.empty()) return true;
  while (num_sent < out.size()) {
    const std::string_view left = std::string_view(out).substr(num_sent);
    const bool encloses = !enclosed.empty() && enclosed.front().first == num_sent;
    const auto after = enclosed.begin() + (encloses ? 1 : 0);
    const auto part = after == enclosed.end() ? left : left.substr(0, after->first - num_sent);
    const auto count = encloses ? channel->send_with(part, enclosed.front().second) : channel->send(part);
    if (!count) return false;
    if (*count == 0) return true;
    num_sent += *count;
    if (encloses) enclosed.pop_front();
  }
  out.clear();
  num_sent = 0;
  // Half a close: the words still arrive even when the client has more to say.
  if (closing) channel->end_sending();
  return true;
}

}  // namespace tessera::launch
