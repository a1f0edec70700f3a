// How two ranks that share a secret prove it to each other over a new TCP connection, before anything else is
// sent.
//
// The listener sends a fresh number; the other end answers with the name of the connection that it wants
// (hidden by the secret), a fresh number of its own and a proof over both; the listener answers with its
// proof. A recorded conversation is of no use later, since the listener's number is another then.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace tessera::launch {

using Digest = std::array<unsigned char, 32>;

// Of the system's random generator.
Digest fresh_number();
std::string to_hex(const Digest& digest);
// Throws PeerLost when it is not one.
Digest digest_of_hex(std::string_view text);

struct Claim {
  Digest name, number, proof;
};

// What the end that connects says for the connection `name`.
Claim claim_of(const Digest& secret, const Digest& listener_number, const std::string& name);
// The name of a connection as a claim has it.
Digest hidden_name(const Digest& secret, const std::string& name);
bool is_proven(const Digest& secret, const Digest& listener_number, const std::string& name,
               const Claim& claim);
// What the listener answers to a proven claim.
Digest answer_to(const Digest& secret, const Digest& listener_number, const std::string& name,
                 const Claim& claim);
// In a time that doesn't depend on where they differ.
bool are_equal(const Digest& a, const Digest& b);

}  // namespace tessera::launch
