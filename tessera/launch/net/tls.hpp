// A TLS 1.3 connection whose ends prove to each other that they hold the job's key, by the key as external
// PSK and a fresh Diffie-Hellman exchange: no certificates, tickets or early data.
#pragma once

#include <memory>

#include "tessera/launch/net/listener.hpp"
#include "tessera/launch/net/tls_key.hpp"

namespace tessera::launch {

// The client's end, proven. Nothing when the connection was cut off or the time is over: come again. Throws
// UserError when the other end doesn't hold the key.
std::unique_ptr<Channel> tls_channel(Descriptor connected, std::shared_ptr<const JobKey> key,
                                     double deadline_seconds);

// Lets in who holds the key; others are cut off.
std::unique_ptr<Listener> tls_listener(Descriptor listening, std::shared_ptr<const JobKey> key);

}  // namespace tessera::launch
