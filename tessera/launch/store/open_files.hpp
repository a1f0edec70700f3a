// How many files and sockets this process may hold open at a time.
#pragma once

#include <string>

namespace tessera::launch {

// Raises the process's limit of open files to `needed` where it is lower. Throws UserError when the system
// allows fewer; `where` names the process in it.
void reserve_open_files(int num_ranks, std::size_t needed, const std::string& where);

// Files that a process may hold open if it asks for all it may (ulimit -Hn).
std::size_t most_open_files();
// Raises this process's limit to that. A rank has a socket for every other member of each of its groups,
// which is often more than the soft limit of a shell.
void raise_open_files();

}  // namespace tessera::launch
