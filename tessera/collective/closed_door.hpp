// Who may still connect to this process's listening sockets? After `close_to_strangers` nobody: Gloo keeps its sockets
// open for as long as its groups live, though all that should connect have done so.
#pragma once

#include <set>

namespace tessera::collective {

// Descriptors of this process that listen for TCP connections.
std::set<int> listening_sockets();

// Descriptors of this process that hold a TCP connection.
std::set<int> connected_sockets();

// Ends the connections, so that whoever waits for what comes over them is told so. Gloo has no other way to be aborted.
void break_off(const std::set<int>& sockets);

// What arrives at these sockets is dropped from now on; connections that exist go on. Descriptors that have been closed
// meanwhile are passed over.
void close_to_strangers(const std::set<int>& sockets);

}  // namespace tessera::collective
